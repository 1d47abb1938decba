"""Containers that interleave packets, or state only when they are decoded: frames by number all the same."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from tests.backends import BACKENDS
from vidload.decode.backends import decord_reason
from vidload.decode.film import open_video
from vidload.index.demux import demux_video
from vidload.synthetic import read_number, write_film

FILMS = [
    ("film.mpg", "mpeg2video", "mpeg"),
    ("film.vob", "mpeg2video", "mpeg"),
    ("film.asf", "libx264", "asf"),
    ("film.wmv", "mpeg4", "asf"),
    ("film.mxf", "libx264", "mxf"),
    ("film.m2ts", "libx264", "mpegts"),
    ("film.flv", "libx264", "flv"),
    ("film.nut", "libx264", "nut"),
    ("film.3gp", "libx264", "mov,mp4,m4a,3gp,3g2,mj2"),
    ("film.ogv", "libvpx", "ogg"),
]


@pytest.mark.parametrize("decoder", BACKENDS)
@pytest.mark.parametrize(("name", "codec", "container"), FILMS)
def test_frames_are_those_asked_for(name: str, codec: str, container: str, decoder: str, tmp_path: Path) -> None:
    path = write_film(tmp_path / name, 60, codec=codec, first_number=100)
    video = demux_video(path)
    assert (video.num_frames, video.container) == (60, container)
    assert np.allclose(np.diff(video.pts()), 0.04, atol=0.0011)
    if decoder == "decord" and decord_reason(video) is not None:
        pytest.skip("decord isn't used on MPEG-2")
    draw = random.Random(name)
    with open_video(path, decoder) as film:  # type: ignore[arg-type]
        assert [read_number(frame) for frame in film.frames(range(60))] == list(range(100, 160))
        for _ in range(10):
            wanted = [draw.randrange(60) for _ in range(3)]
            assert [read_number(frame) for frame in film.frames(wanted)] == [100 + number for number in wanted]
