"""Clips of real files show the frames that a sampler means: the number in the picture says which."""

from __future__ import annotations

import numpy as np
import pytest

from tests.films import FILMS_BY_NAME, FilmFolder
from vidload.clips.samplers import ClipSampler, DenseClips, RandomClips, SparseFrames, UniformClips
from vidload.decode.film import open_video
from vidload.index.demux import demux_video
from vidload.synthetic import read_number

KINDS = ["h264_bframes", "h264_variable", "h264_variable_mkv", "h264_avi", "h264_ts", "vp9"]


def moments(start: float, num_frames: int, fps: float) -> np.ndarray:
    return start + np.arange(num_frames) / fps


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("sampler", "clip", "start"),
    [
        (RandomClips(8, fps=10), 0, 0.0),
        (UniformClips(8, fps=10, clips_per_video=2), 0, 0.0),
        (UniformClips(5, fps=7, clips_per_video=2), 1, None),
        (DenseClips(4, fps=8, hop=0.3), 3, 0.9),
    ],
    ids=["random", "uniform-first", "uniform-last", "dense"],
)
def test_clips_by_rate(film_file: FilmFolder, name: str, sampler: ClipSampler, clip: int, start: float | None) -> None:
    film = FILMS_BY_NAME[name]
    path = str(film_file(film))
    fps = float(sampler.fps)  # type: ignore[attr-defined]
    if start is None:  # the last clip ends with the last frame
        start = film.pts[-1] - (sampler.num_frames - 1) / fps
    shown = np.searchsorted(film.pts, moments(start, sampler.num_frames, fps) + 0.0005, side="right") - 1
    frames = sampler.frames(demux_video(path), clip, lambda: 0.0)
    with open_video(path) as opened:
        assert [read_number(picture) for picture in opened.frames(frames)] == [film.numbers[i] for i in shown]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("sampler", "clip", "wanted"),
    [
        (RandomClips(6, stride=3), 0, [0, 3, 6, 9, 12, 15]),
        (DenseClips(4, stride=2, hop=5), 4, [20, 22, 24, 26]),
        (UniformClips(3, stride=2, clips_per_video=2), 1, [-5, -3, -1]),
    ],
    ids=["random", "dense", "uniform-last"],
)
def test_clips_by_stride(film_file: FilmFolder, name: str, sampler: ClipSampler, clip: int, wanted: list[int]) -> None:
    film = FILMS_BY_NAME[name]
    path = str(film_file(film))
    frames = sampler.frames(demux_video(path), clip, lambda: 0.0)
    with open_video(path) as opened:
        assert [read_number(picture) for picture in opened.frames(frames)] == [film.numbers[i] for i in wanted]


@pytest.mark.parametrize("name", KINDS)
def test_sparse_frames(film_file: FilmFolder, name: str) -> None:
    film = FILMS_BY_NAME[name]
    path = str(film_file(film))
    frames = SparseFrames(5).frames(demux_video(path), 0, lambda: 0.0)
    tenth = film.num_frames // 10
    with open_video(path) as opened:
        numbers = [read_number(picture) for picture in opened.frames(frames)]
    assert numbers == [film.first_number + part * tenth for part in (1, 3, 5, 7, 9)]
