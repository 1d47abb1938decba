"""Cutting and turning commute: a placement in the picture as shown is found again in the picture as coded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.backends import BACKENDS
from tests.films import Film, FilmFolder, remux
from tests.index.videos import make_video
from vidload.decode.film import open_video
from vidload.decode.orient import as_coded, as_shown
from vidload.decode.protocol import Frames
from vidload.index.demux import demux_video
from vidload.index.video import Video
from vidload.synthetic import read_number
from vidload.transforms.geometry import Placement, RandomResizedCrop

TURNS = [(degrees, mirrored) for degrees in (0, 90, 180, 270) for mirrored in (False, True)]
each_turn = pytest.mark.parametrize("turn", TURNS, ids=lambda turn: f"{turn[0]}{'-mirrored' if turn[1] else ''}")


def turned_video(width: int, height: int, rotation: int, mirrored: bool) -> Video:
    return make_video(width=width, height=height, rotation=rotation, mirrored=mirrored)


def cut(picture: Frames, rectangle: tuple[int, int, int, int]) -> Frames:
    x, y, width, height = rectangle
    return picture[y : y + height, x : x + width]


@st.composite
def placements(draw: st.DrawFn, width: int, height: int) -> Placement:
    """Placements that don't scale."""

    def rectangle(outer_width: int, outer_height: int) -> tuple[int, int, int, int]:
        w, h = draw(st.integers(1, outer_width)), draw(st.integers(1, outer_height))
        return draw(st.integers(0, outer_width - w)), draw(st.integers(0, outer_height - h)), w, h

    crop = rectangle(width, height)
    return Placement(crop, crop[2:], rectangle(*crop[2:]), draw(st.booleans()))


@given(st.data(), st.integers(1, 12), st.integers(1, 12), st.sampled_from(TURNS))
def test_cutting_the_coded_picture_then_turning_is_turning_then_cutting(
    data: st.DataObject, width: int, height: int, turn: tuple[int, bool]
) -> None:
    video = turned_video(width, height, *turn)
    coded = np.arange(width * height * 3, dtype=np.int64).reshape(height, width, 3)
    shown = np.rot90(coded[:, ::-1] if turn[1] else coded, -turn[0] // 90)
    assert shown.shape[1::-1] == video.display_size
    placement = data.draw(placements(*video.display_size))
    wanted = cut(cut(shown, placement.crop), placement.window)
    wanted = wanted[:, ::-1] if placement.flip else wanted
    in_coded = as_coded(video, placement)
    assert in_coded.scaled == in_coded.crop[2:]
    assert np.array_equal(as_shown(video, placement, cut(cut(coded, in_coded.crop), in_coded.window)), wanted)


@each_turn
def test_a_scaled_size_is_turned_too(turn: tuple[int, bool]) -> None:
    video = turned_video(640, 360, *turn)
    width, height = video.display_size
    assert (width > height) == (turn[0] in (0, 180))
    placement = Placement((0, 0, width, height), (30, 50), (0, 0, 30, 50))
    assert as_coded(video, placement).scaled == ((30, 50) if turn[0] in (0, 180) else (50, 30))


@pytest.fixture
def turned(film_file: FilmFolder, tmp_path: Path) -> Callable[[tuple[int, bool]], Path]:
    """Gives a film whose header says to turn it: degrees clockwise of a picture that may be mirrored first."""

    def make(turn: tuple[int, bool]) -> Path:
        # PyAV turns counterclockwise and mirrors afterwards, which is mirroring first and turning clockwise.
        degrees = turn[0] if turn[1] else -turn[0] % 360
        return remux(film_file("h264_moving"), tmp_path / "turned.mp4", rotation=(degrees, turn[1]))

    return make


@each_turn
@pytest.mark.parametrize("decoder", BACKENDS)
def test_films_are_shown_as_their_header_says(
    turn: tuple[int, bool],
    decoder: str,
    turned: Callable[[tuple[int, bool]], Path],
    linear: Callable[[Film | str], Frames],
) -> None:
    with open_video(turned(turn), decoder) as film:
        assert (film.video.rotation, film.video.mirrored) == turn
        coded = linear("h264_moving")[[3, 40]]
        wanted = np.rot90(coded[:, :, ::-1] if turn[1] else coded, -turn[0] // 90, axes=(1, 2))
        assert (film.height, film.width) == wanted.shape[1:3]
        frames = film.frames([3, 40])
        assert np.abs(frames.astype(np.int16) - wanted).max() <= 2
        assert [read_number(frame) for frame in frames] == ([103, 140] if turn == (0, False) else [-1, -1])


@each_turn
def test_a_turned_film_is_scaled_and_cut_as_shown(
    turn: tuple[int, bool], turned: Callable[[tuple[int, bool]], Path]
) -> None:
    path = turned(turn)
    video = demux_video(path)
    draw = np.random.default_rng(TURNS.index(turn))
    for size in ((90, 50), (50, 90), RandomResizedCrop((80, 60), scale=(0.3, 1))):
        geometry = size
        if not isinstance(size, tuple):
            placement = size.plan(*video.display_size, draw.random)
            geometry = Fixed(placement)
        pyav, decord = (open_video(path, decoder).frames([3], size=geometry) for decoder in ("pyav", "decord"))
        whole = open_video(path).frames([3])[0]
        assert np.abs(pyav.astype(np.int16) - decord).mean() < 3
        if not isinstance(size, tuple):
            x, y, width, height = placement.crop
            crop = whole[y : y + height, x : x + width].astype(float)
            crop = crop[:, ::-1] if placement.flip else crop
            # The mean colour of each quarter is that of the crop's: turned otherwise, they would be others.
            for rows, columns in ((0, 0), (0, 1), (1, 0), (1, 1)):
                assert np.abs(quarter(pyav[0], rows, columns) - quarter(crop, rows, columns)).max() < 6


def quarter(picture: np.ndarray, row: int, column: int) -> np.ndarray:
    height, width = picture.shape[0] // 2, picture.shape[1] // 2
    return picture[row * height : (row + 1) * height, column * width : (column + 1) * width].mean((0, 1))


class Fixed:
    """A geometry that always is the one placement."""

    output_size = None

    def __init__(self, placement: Placement) -> None:
        self.placement = placement

    def plan(self, width: int, height: int, uniform: Callable[[], float]) -> Placement:
        return self.placement
