"""The recipes under docker/ against the project: what can be checked without building an image."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it

ROOT = Path(__file__).resolve().parent.parent
DOCKER = ROOT / "docker"
RECIPES = ("Dockerfile", "Dockerfile.cpu")


def instructions(recipe: str) -> list[tuple[str, str]]:
    """A Dockerfile's instructions, each with its arguments; comments and line ends taken out."""
    lines = [line for line in (DOCKER / recipe).read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(name.upper(), rest) for name, rest in (line.split(None, 1) for line in joined.splitlines() if line)]


def last_stage(recipe: str) -> list[tuple[str, str]]:
    found = instructions(recipe)
    return found[max(at for at, (name, _) in enumerate(found) if name == "FROM") :]


def arguments(recipe: str) -> dict[str, str]:
    """The build arguments that have a default."""
    return dict(rest.split("=", 1) for name, rest in instructions(recipe) if name == "ARG" and "=" in rest)


def environment(recipe: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for name, rest in last_stage(recipe) if name == "ENV" for pair in rest.split())


def pins(file: str) -> dict[str, Version]:
    """Versions of a file of which each line must be ``name==version``."""
    found = {}
    for line in (DOCKER / file).read_text().splitlines():
        if line.startswith("#"):
            continue
        match = re.fullmatch(r"([a-z0-9-]+)==([0-9][^\s;,*]*)", line)
        assert match, f"docker/{file}: {line!r} isn't a pin"
        found[match[1]] = Version(match[2])
    return found


def pyproject(name: str) -> dict[str, Any]:
    """One of pyproject.toml's tables."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())[name]
    return table


def project() -> dict[str, Any]:
    return pyproject("project")


def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return document


def ignored(path: str) -> bool:
    """Whether .dockerignore keeps `path` out of a build: the last pattern that matches it or a folder above it wins."""
    out = False
    parts = path.split("/")
    heads = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = re.escape(line.removeprefix("!")).replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
        if any(re.fullmatch(pattern, head) for head in heads):
            out = not line.startswith("!")
    return out


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_image_runs_as_a_user_that_is_not_root(recipe: str) -> None:
    users = [rest for name, rest in last_stage(recipe) if name == "USER"]
    # By number: Kubernetes' runAsNonRoot can't tell from a name.
    assert users == ["1000:1000"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_entry_point_and_health_check(recipe: str) -> None:
    stage = dict(last_stage(recipe))
    assert json.loads(stage["ENTRYPOINT"]) == ["vidload"]
    assert json.loads(stage["HEALTHCHECK"].partition(" CMD ")[2]) == ["vidload", "doctor"]
    assert "vidload" in project()["scripts"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_stage_is_built_on_the_base_that_is_an_argument(recipe: str) -> None:
    stages = [rest for name, rest in instructions(recipe) if name == "FROM"]
    assert len(stages) > 1
    assert all(stage.startswith("${BASE} AS ") for stage in stages)
    # A release, not `latest` or a name that moves on.
    assert re.fullmatch(r"[a-z/]+:\d+\.\d+-slim", arguments(recipe)["BASE"])


def test_the_gpu_image_asks_for_the_video_libraries_of_the_driver() -> None:
    values = environment("Dockerfile")
    assert set(values["NVIDIA_DRIVER_CAPABILITIES"].split(",")) == {"compute", "utility", "video"}
    assert values["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert not any(name.startswith("NVIDIA") for name in environment("Dockerfile.cpu"))


@pytest.mark.parametrize("recipe", RECIPES)
def test_settings_of_pip_stay_out_of_the_image(recipe: str) -> None:
    assert not any(name == "ARG" or "PIP_" in rest for name, rest in last_stage(recipe))


@pytest.mark.parametrize("recipe", RECIPES)
def test_copied_files_exist_and_reach_the_build(recipe: str) -> None:
    sources = [
        source
        for name, rest in instructions(recipe)
        if name == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    ]
    assert {"vidload", "pyproject.toml", "docker/requirements.txt"} <= set(sources)
    for source in sources:
        assert (ROOT / source).exists(), source
        assert not ignored(source), source


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_is_installed_is_pinned(recipe: str) -> None:
    commands = " && ".join(rest for name, rest in instructions(recipe) if name == "RUN").split("&&")
    installs = [command.partition(" install ")[2] for command in commands if "/pip install" in command]
    assert len(installs) >= 4
    for install in installs:
        assert " -r " in f" {install}" or '"${TORCH}"' in install or "/wheels/" in install, install


def test_pins_are_what_the_project_allows() -> None:
    found = pins("requirements.txt")
    for requirement in map(Requirement, project()["dependencies"]):
        if requirement.name != "torch":
            assert requirement.specifier.contains(found[canonicalize_name(requirement.name)]), requirement
    gpu = pins("requirements-gpu.txt")
    for extra in ("dali", "torchcodec"):
        for requirement in map(Requirement, project()["optional-dependencies"][extra]):
            assert requirement.specifier.contains(gpu[canonicalize_name(requirement.name)]), requirement
    for requirement in map(Requirement, pyproject("build-system")["requires"]):
        assert requirement.specifier.contains(pins("requirements-build.txt")[requirement.name]), requirement
    assert not found.keys() & gpu.keys()


@pytest.mark.parametrize("recipe", RECIPES)
def test_torch_is_the_one_that_tests_run_with(recipe: str) -> None:
    torch = Requirement(arguments(recipe)["TORCH"])
    tested = re.search(r"^torch==(\S+)$", (ROOT / "requirements-dev.txt").read_text(), re.MULTILINE)
    assert tested
    assert Version(str(torch.specifier).removeprefix("==")).public == tested[1]
    (allowed,) = (found for found in map(Requirement, project()["dependencies"]) if found.name == "torch")
    assert allowed.specifier.contains(tested[1])


def test_gpu_packages_are_for_the_cuda_that_torch_is_checked_for() -> None:
    cuda = arguments("Dockerfile")["CUDA"]
    assert cuda == "13"
    nvidia = [name for name in pins("requirements-gpu.txt") if re.search(r"-cu(da)?\d+$", name)]
    assert "nvidia-dali-cuda130" in nvidia
    assert all(re.search(rf"-cu(da)?{cuda}0?$", name) for name in nvidia)


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".venv/bin/python",
        ".mypy_cache/3.10/a.json",
        ".ruff_cache/a",
        ".pytest_cache/a",
        ".hypothesis/a",
        "build/demo/summary.json",
        "tests/test_docker.py",
        "data/film.mp4",
        "vidload/__pycache__/errors.cpython-311.pyc",
        "vidload/loader/__pycache__/ring.cpython-311.pyc",
    ],
)
def test_builds_see_neither_history_nor_caches(path: str) -> None:
    assert ignored(path)


def test_builds_see_the_package() -> None:
    assert not ignored("vidload/loader/ring.py")
    assert not ignored("vidload/py.typed")


def test_compose_reserves_gpus_with_the_video_capability() -> None:
    (device,) = compose()["services"]["vidload"]["deploy"]["resources"]["reservations"]["devices"]
    assert device["driver"] == "nvidia"
    assert set(device["capabilities"]) == {"gpu", "compute", "utility", "video"}
    assert "deploy" not in compose()["services"]["vidload-cpu"]


@pytest.mark.parametrize("service", ["vidload", "vidload-cpu"])
def test_compose_mounts_data_and_needs_no_larger_shared_memory(service: str) -> None:
    found = compose()["services"][service]
    assert not found.keys() & {"shm_size", "ipc", "privileged"}
    assert any(volume.endswith(":/data:ro") for volume in found["volumes"])
    assert not found["user"].startswith(("0", "root"))
    assert (DOCKER / found["build"]["context"]).resolve() == ROOT
    assert (ROOT / found["build"]["dockerfile"]).is_file()
    assert found["image"].partition(":")[2].removesuffix("-cpu") == project()["version"]


def test_the_script_that_verifies_the_image_parses() -> None:
    script = DOCKER / "verify.sh"
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(script)], check=True)
