"""What a configuration says is what is built, and what it can't say is refused by file, line and key."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vidload.config.load import load_config
from vidload.config.models import Config
from vidload.errors import ConfigError

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(text: str) -> Path:
        path = tmp_path / "train.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


def problems(path: Path, **overrides: Any) -> list[str]:
    """The message's lines, each less the path of the file's folder."""
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return str(caught.value).replace(f"{path.parent}/", "").splitlines()


def test_only_what_is_set_is_passed_on(write: Write) -> None:
    config = load_config(write("dataset: {index: a.index, size: null}\nloader: {epochs: 3, shuffle: false}\n"))
    assert set(config.dataset.given()) == {"index", "size"}
    assert config.loader.given() == {"epochs": 3, "shuffle": False}


def test_sections_may_be_left_out_or_empty(write: Write) -> None:
    for text in ("dataset: {index: a}", "dataset: {index: a}\nloader:\nrun:\n"):
        config = load_config(write(text))
        assert config.loader.given() == {}
        assert config.run.step_seconds == 0.0


def test_an_index_path_counts_from_the_files_folder(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("dataset: {index: sub/a.index}")
    monkeypatch.chdir("/")
    assert load_config(path).dataset.index == str(path.parent / "sub/a.index")
    assert load_config(path, {"dataset.index": "tmp/b.index"}).dataset.index == "/tmp/b.index"
    assert load_config(path, {"index": "/c.index"}).dataset.index == "/c.index"
    monkeypatch.setenv("HOME", "/home/someone")
    assert load_config(write("dataset: {index: ~/a.index}")).dataset.index == "/home/someone/a.index"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "dataset: {index: a}\nloader:\n  num_worker: 4\n",
            ["train.yaml:3: loader.num_worker: no such key; did you mean num_workers?"],
        ),
        (
            "dataset:\n  index: a\n  clips:\n    type: random\n    stide: 4\n",
            ["train.yaml:5: dataset.clips.stide: no such key; did you mean stride?"],
        ),
        ("dataset: {index: a}\nlodaer: {}\n", ["train.yaml:2: lodaer: no such key; did you mean loader?"]),
        (
            "dataset: {index: a, num_workers: 2}",
            ["train.yaml:1: dataset.num_workers: no such key; did you mean loader.num_workers?"],
        ),
        (
            "dataset: {index: a}\nrun: {xyz: 2}",
            ["train.yaml:2: run.xyz: no such key; there are epochs, step_seconds, steps"],
        ),
        (
            "dataset:\n  index: a\n  size: [1, x]\nloader:\n  epochs: '9'\n  shuffle: 1\n",
            [
                "train.yaml:3: dataset.size[1]: 'x': give a whole number",
                "train.yaml:5: loader.epochs: '9': give a whole number",
                "train.yaml:6: loader.shuffle: 1: give true or false",
            ],
        ),
        ("loader: {epochs: 1}", ["train.yaml: dataset: missing: The clips."]),
        (
            "dataset: {size: 224}",
            [
                "train.yaml:1: dataset.index: missing: The index; a relative path counts from the configuration's "
                "folder."
            ],
        ),
        ("dataset: 3", ["train.yaml:1: dataset: 3: give a mapping of keys and values"]),
        ("dataset: {index: a}\nloader: [1]", ["train.yaml:2: loader: [1]: give a mapping of keys and values"]),
        ("dataset: {index: a}\n3: 4", ["train.yaml:2: 3: keys are text"]),
        ("dataset: {index: ''}", ["train.yaml:1: dataset.index: '': give text that isn't empty"]),
        ("dataset: {index: a}\nloader: {batch_size: 0}", ["train.yaml:2: loader.batch_size: 0: give at least 1"]),
        ("dataset: {index: a}\nrun: {step_seconds: -1}", ["train.yaml:2: run.step_seconds: -1: give at least 0"]),
        (
            "dataset: {index: a}\nloader: {worker_kind: fork}",
            ["train.yaml:2: loader.worker_kind: 'fork': choose 'process' or 'thread'"],
        ),
        (
            "dataset: {index: a, clips: {type: randm}}",
            [
                "train.yaml:1: dataset.clips.type: 'randm': choose random, uniform, dense or sparse; "
                "did you mean random?"
            ],
        ),
        (
            "dataset: {index: a, clips: {stride: 2}}",
            ["train.yaml:1: dataset.clips.type: missing: choose random, uniform, dense or sparse"],
        ),
        (
            "dataset: {index: a, clips: 16}",
            ["train.yaml:1: dataset.clips: 16: give a mapping such as {type: random, ...}"],
        ),
        (
            "dataset: {index: a, clips: {type: sparse}}",
            ["train.yaml:1: dataset.clips.num_frames: missing: Frames of a clip."],
        ),
        ("dataset: {index: a, clips: {type: dense, hop: x}}", ["train.yaml:1: dataset.clips.hop: 'x': give a number"]),
        (
            "dataset: {index: a, size: large}",
            [
                "train.yaml:1: dataset.size: 'large': give a side in pixels, [height, width], null or a mapping such "
                "as {type: resize, ...}"
            ],
        ),
        ("dataset: {index: a, size: [224]}", ["train.yaml:1: dataset.size: [224]: give 2 of them"]),
        (
            "dataset: {index: a, size: {type: resise, size: 3}}",
            [
                "train.yaml:1: dataset.size.type: 'resise': choose resize, center_crop or random_resized_crop; "
                "did you mean resize?"
            ],
        ),
    ],
)
def test_each_problem_is_one_line_with_its_place(write: Write, text: str, wanted: list[str]) -> None:
    assert problems(write(text)) == wanted


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            "dataset:\n  index: a\n  clips: {type: dense, stride: 1, fps: 3}",
            "train.yaml:3: dataset.clips: DenseClips stride=1",
        ),
        (
            "dataset:\n  index: a\n  clips: {type: sparse, num_frames: 4, clips_per_video: 2}",
            "train.yaml:3: dataset.clips: Sparse",
        ),
        (
            "dataset:\n  index: a\n  size: {type: center_crop, size: 8, resize: 4}",
            "train.yaml:3: dataset.size: CenterCrop resize=4",
        ),
        ("dataset:\n  index: a\n  size: 99999", "train.yaml:3: dataset.size: size=99999"),
        (
            "dataset:\n  index: a\n  size: {type: random_resized_crop, size: 8, scale: [1, 2]}",
            "train.yaml:3: dataset.size: Random",
        ),
    ],
)
def test_what_the_classes_refuse_is_told_with_its_place(write: Write, text: str, place: str) -> None:
    (line,) = problems(write(text))
    assert line.startswith(place)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "train.yaml: empty"),
        ("# only a comment\n", "train.yaml: empty"),
        ("- dataset\n", "train.yaml: holds a list at its top"),
        ("just text", "train.yaml: holds a text at its top"),
        ("a: b: c", "train.yaml:1: not valid YAML: mapping values are not allowed here"),
        ("dataset:\n  index: [a\nloader: {}\n", "train.yaml:3: not valid YAML: while parsing a flow sequence"),
        ("dataset:\n\tindex: a\n", "train.yaml:2: not valid YAML"),
        (
            "dataset: {index: a}\nloader:\n  seed: 1\n  seed: 2\n",
            "train.yaml:4: loader.seed: given twice, first in line 3",
        ),
        ("dataset: {index: a}\ndataset: {index: b}\n", "train.yaml:2: dataset: given twice, first in line 1"),
        ("dataset: {index: a}\n---\nloader: {}\n", "train.yaml:2: not valid YAML: expected a single document"),
        (
            "dataset: !!python/object/apply:os.getcwd []",
            "train.yaml:1: not valid YAML: could not determine a constructor",
        ),
        ("dataset: {index: 2020-13-45}", "train.yaml: not valid YAML: month must be in 1..12"),
        ("dataset: " + "[" * 5000, "train.yaml: not valid YAML"),
        ("dataset: &a {index: *a}", "train.yaml:1: dataset.index: {'index': {...}}: give text"),
    ],
)
def test_files_that_are_no_configuration_are_refused(write: Write, text: str, wanted: str) -> None:
    (line,) = problems(write(text))
    assert line.startswith(wanted)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.yaml: can't be read: No such file"):
        load_config(tmp_path / "gone.yaml")
    with pytest.raises(ConfigError, match="can't be read: Is a directory"):
        load_config(tmp_path)
    (tmp_path / "film.yaml").write_bytes(b"\x00\xff\xfe")
    with pytest.raises(ConfigError, match=r"film\.yaml: not UTF-8"):
        load_config(tmp_path / "film.yaml")


def test_anchors_and_merge_keys_are_understood(write: Write) -> None:
    text = "dataset: {index: a, clips: &c {type: random, num_frames: 8}}\nloader: {seed: &s 7}\nrun: {steps: *s}\n"
    config = load_config(write(text))
    assert (config.loader.seed, config.run.steps) == (7, 7)


def test_many_aliases_of_aliases_take_no_time(write: Write) -> None:
    rows = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    assert len(problems(write("\n".join(rows)))) == 31  # each a key that doesn't exist, and dataset missing


def test_loading_a_configuration_imports_no_torch(write: Write) -> None:
    path = write("dataset: {index: a, clips: {type: random}}")
    code = (
        "import sys; from vidload.config.load import load_config; "
        f"load_config({str(path)!r}); print([m for m in ('torch', 'av', 'decord') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_shipped_configuration_is_valid() -> None:
    files = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
    assert {file.stem for file in files} >= {"demo", "action-recognition", "long-video", "self-supervised"}
    for file in files:
        assert load_config(file).loader.epochs


def test_the_schema_knows_every_key() -> None:
    schema = Config.model_json_schema()
    assert set(schema["properties"]) == {"dataset", "loader", "run"}
    assert schema["additionalProperties"] is False
    clips = schema["$defs"]["DatasetConfig"]["properties"]["clips"]["oneOf"]
    assert [schema["$defs"][kind["$ref"].split("/")[-1]]["properties"]["type"]["const"] for kind in clips] == [
        "random",
        "uniform",
        "dense",
        "sparse",
    ]
