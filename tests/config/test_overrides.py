"""Overrides go before the file, by full key or by the argument's name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vidload.config.load import load_config
from vidload.errors import ConfigError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "train.yaml"
    file.write_text("dataset: {index: a, size: 224, clips: {type: random, stride: 4}}\nloader: {num_workers: 2}\n")
    return file


def test_a_full_key_is_set(path: Path) -> None:
    config = load_config(path, {"loader.num_workers": 4, "dataset.clips.stride": 2, "run.steps": 5})
    assert config.loader.given() == {"num_workers": 4}
    assert config.dataset.clips.given() == {"stride": 2}
    assert config.run.steps == 5


def test_an_arguments_name_is_enough(path: Path) -> None:
    config = load_config(path, {"num_workers": 4, "size": [8, 9]})
    assert config.loader.given()["num_workers"] == 4
    assert config.dataset.size == [8, 9]


def test_a_name_of_two_sections_is_set_in_both(path: Path) -> None:
    config = load_config(path, {"epochs": 9})
    assert (config.loader.epochs, config.run.epochs) == (9, 9)


def test_a_section_takes_a_mapping_of_its_keys(path: Path) -> None:
    assert load_config(path, {"loader": {"epochs": 3}}).loader.given() == {"num_workers": 2, "epochs": 3}
    with pytest.raises(ConfigError, match="override loader: give a mapping of its keys: batch_size"):
        load_config(path, {"loader": 3})


def test_clips_can_be_replaced_as_a_whole(path: Path) -> None:
    config = load_config(path, {"clips": {"type": "sparse", "num_frames": 4}})
    assert config.dataset.clips.given() == {"num_frames": 4}


def test_the_file_itself_is_not_changed_by_overrides(path: Path) -> None:
    load_config(path, {"dataset.clips.stride": 2})
    assert load_config(path).dataset.clips.given() == {"stride": 4}


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        ({"num_worker": 4}, "override num_worker: no such key; did you mean num_workers?"),
        ({"loader.num_worker": 4}, "override loader.num_worker: no such key; did you mean num_workers?"),
        ({"loadr.num_workers": 4}, "override loadr.num_workers: no such key; did you mean loader?"),
        ({"dataset.shuffle": 4}, "override dataset.shuffle: no such key; did you mean loader.shuffle?"),
        ({"dataset.size.flip": 1}, "override dataset.size.flip: dataset.size is 224 and has no keys"),
        ({"loader": {"sed": 4}}, "override loader.sed: no such key; did you mean seed?"),
    ],
)
def test_overrides_that_do_not_exist_are_refused(path: Path, overrides: dict[str, Any], wanted: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    assert str(caught.value).startswith(wanted)


def test_a_wrong_value_is_told_to_be_the_overrides(path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(path, {"num_workers": "four", "dataset.clips.strid": 3})
    assert str(caught.value).splitlines() == [
        f"{path}, overridden: dataset.clips.strid: no such key; did you mean stride?",
        f"{path}, overridden: loader.num_workers: 'four': give a whole number",
    ]
