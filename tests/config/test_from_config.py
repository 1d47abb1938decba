"""`from_config` gives the loader that a script would have made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import vidload
from tests.films import FilmFolder
from vidload.errors import ConfigError, VidloadError

TEXT = """
dataset:
  index: films.index
  clips: {type: dense, num_frames: 4, stride: 2, hop: 30}
  size: [32, 64]
loader:
  batch_size: 3
  epochs: 2
  num_workers: 0
"""


@pytest.fixture
def config(tmp_path: Path, film_file: FilmFolder) -> Path:
    films = [film_file("h264_bframes"), film_file("h264_variable")]  # 100 and 60 frames: 4 and 2 clips
    vidload.build_index(films, tmp_path / "films.index", num_workers=0).close()
    path = tmp_path / "c.yaml"
    path.write_text(TEXT)
    return path


def test_batches_are_those_of_the_same_objects_made_by_hand(config: Path) -> None:
    clips = vidload.DenseClips(4, stride=2, hop=30)
    dataset = vidload.ClipDataset(config.parent / "films.index", clips=clips, size=(32, 64))
    with (
        vidload.from_config(config) as loader,
        vidload.VideoLoader(dataset, batch_size=3, epochs=2, num_workers=0) as by_hand,
    ):
        assert len(loader) == len(by_hand) == 2
        for _ in range(2):
            for batch, wanted in zip(loader, by_hand, strict=True):
                assert batch.frames.tolist() == wanted.frames.tolist()
                assert batch.video_id.tolist() == wanted.video_id.tolist()
                assert batch.video.equal(wanted.video)
                assert tuple(batch.video.shape) == (3, 3, 4, 32, 64)


def test_overrides_go_before_the_file(config: Path) -> None:
    with vidload.from_config(config, batch_size=6, epochs=1, **{"dataset.clips.hop": 15}) as loader:
        shapes = [tuple(batch.frames.shape) for batch in loader]
    assert shapes == [(6, 4), (5, 4)]  # 7 and 4 clips


def brighter(clip: vidload.Clip) -> vidload.Clip:
    return clip._replace(video=clip.video + 1)


def test_functions_are_handed_through(config: Path) -> None:
    spans: list[Any] = []
    with vidload.from_config(config, epochs=1, trace=spans.append, transform=brighter) as loader:
        batch = next(iter(loader))
    with vidload.from_config(config, epochs=1) as loader:
        plain = next(iter(loader))
    assert spans
    assert batch.video.equal(plain.video + 1)


def test_what_the_classes_refuse_names_the_file(config: Path) -> None:
    with pytest.raises(ConfigError, match=r"c\.yaml: dataset: .* not one of its 2 videos gives a clip"):
        vidload.from_config(config, clips={"type": "random", "num_frames": 101, "stride": 1, "short": "drop"})
    with pytest.raises(ConfigError, match=r"c\.yaml: loader: .*device='nowhere'"):
        vidload.from_config(config, device="nowhere")


def test_a_missing_index_is_named(config: Path) -> None:
    with pytest.raises(VidloadError, match=r"gone\.index"):
        vidload.from_config(config, index=str(config.parent / "gone.index"))
