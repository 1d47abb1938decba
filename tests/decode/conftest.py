"""Fixtures shared by the tests of decoding: each film demuxed once, and decoded once the plain way."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import av
import numpy as np
import pytest

from tests.films import Film, FilmFolder
from vidload.decode.protocol import Frames
from vidload.index.demux import demux_video
from vidload.index.video import Video


@pytest.fixture(scope="session")
def video_of(film_file: FilmFolder) -> Callable[[Film | str], Video]:
    """Gives a film demuxed, by itself or by its name."""
    by_name = cache(lambda name: demux_video(film_file(name)))
    return lambda film: by_name(str(film))


@pytest.fixture(scope="session")
def linear(film_file: FilmFolder) -> Callable[[Film | str], Frames]:
    """Gives all frames of a film as PyAV decodes it from start to end: uint8[T, H, W, 3]."""

    @cache
    def decode(name: str) -> Frames:
        with av.open(str(film_file(name))) as container:
            return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])

    return lambda film: decode(str(film))
