"""Modules import downwards only, `import vidload` is cheap, and a worker imports no torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import vidload

PACKAGE = Path(vidload.__file__).parent

BELOW = {
    "errors": set[str](),
    "synthetic": {"errors"},
    "index": {"errors"},
    "transforms": {"errors"},
    "decode": {"errors", "index", "transforms"},
    "clips": {"errors", "index"},
    "dataset": {"errors", "index", "transforms", "decode", "clips"},
    "loader": {"errors", "index", "transforms", "decode", "clips", "dataset"},
    "check": {"errors", "index", "transforms", "decode"},
    "transcode": {"errors", "synthetic", "index", "transforms", "decode", "clips"},
    "config": {"errors", "index", "transforms", "decode", "clips", "dataset", "loader"},
    "report": {"errors", "synthetic", "index", "transforms", "decode", "clips", "dataset", "loader"},
}
"""For each module or folder of vidload, what it may import; the command line may import all of them."""
BELOW["cli"] = {"", *BELOW}  # "" is vidload itself

HEAVY = {"torch", "av", "decord", "pyarrow", "pydantic", "matplotlib", "pandas"}

MODULES = sorted(PACKAGE.rglob("*.py"))


def layer(module: str) -> str:
    """``index`` of ``vidload.index.demux``; ``""`` of ``vidload`` itself."""
    return [*module.split("."), ""][1]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, module) of all imports in a file, those in functions and for type checkers too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: import by the full name"
            module = node.module or ""
            if module == "vidload":  # its names are those of modules, or live in one
                yield from ((node.lineno, f"vidload.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, module


def test_there_is_something_to_check() -> None:
    assert len(MODULES) > 50
    assert {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in MODULES} == {"__init__", *BELOW}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_downwards_only(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        return  # the public face: names of all layers, loaded when first used
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    for line, module in imports(path):
        if module.split(".")[0] == "vidload":
            target = layer(module)
            assert target == own or target in BELOW[own], f"{path}:{line}: {own} may not import {module}"


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")))
def test_a_folder_says_what_lives_in_it(folder: str) -> None:
    text = ast.get_docstring(ast.parse((PACKAGE / folder / "__init__.py").read_text(encoding="utf-8")))
    assert text
    assert "import" in text


def in_a_fresh_process(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_importing_vidload_loads_no_heavy_package() -> None:
    loaded = in_a_fresh_process("import sys, vidload; print(*sys.modules)").split()
    assert "vidload.errors" in loaded
    assert not HEAVY & set(loaded)
    assert "numpy" not in loaded


def test_importing_vidload_is_quick() -> None:
    code = "import time; start = time.perf_counter(); import vidload; print(time.perf_counter() - start)"
    assert min(float(in_a_fresh_process(code)) for _ in range(3)) < 0.3


def test_every_public_name_can_be_had() -> None:
    for name in vidload.__all__:
        assert getattr(vidload, name) is not None
    assert set(vidload.__all__) <= set(dir(vidload))
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        vidload.Nonsense  # noqa: B018


def test_a_worker_imports_no_torch() -> None:
    """Nor what only the command line and the configurations need: a worker starts in 0.3 s."""
    loaded = in_a_fresh_process("import sys, vidload.loader.worker; print(*sys.modules)").split()
    assert "vidload.loader.worker" in loaded
    assert not {"torch", "pydantic", "matplotlib", "pandas", "typer", "rich"} & set(loaded)


def test_what_a_worker_decodes_with_imports_no_torch() -> None:
    code = "import sys, vidload.dataset, vidload.decode.film, vidload.index.build; print(*sys.modules)"
    assert not {"torch", "pydantic", "matplotlib", "pandas"} & set(in_a_fresh_process(code).split())
