"""Clips decoded to planar YUV are the same frames at the same place in the same colours, from films of any format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from tests.decode.decoding import decode, decode_rgb
from tests.films import FILMS, Film, FilmFolder, remux
from tests.transforms.colours import planes_to_rgb, split_planes
from vidload.decode.backends import Backends
from vidload.decode.protocol import Frames
from vidload.errors import ArgumentError
from vidload.index.demux import demux_video
from vidload.index.video import Video
from vidload.synthetic import read_number
from vidload.transforms.geometry import CenterCrop, Placement, RandomResizedCrop
from vidload.transforms.planar import PlaneColour

VideoOf = Callable[[Film | str], Video]

LEFT = (0.0, 0.5)


def numbers(planes: Frames) -> list[int]:
    """The number in each frame's luma."""
    return [read_number(split_planes(frame)[0]) for frame in planes]


def linear_planes(path: Path) -> list[tuple[Frames, ...]]:
    """Planes of all frames of a film of yuv420p, as PyAV decodes it from start to end."""
    with av.open(str(path)) as container:
        return [split_planes(frame.to_ndarray()) for frame in container.decode(video=0)]


@pytest.mark.parametrize("film", FILMS, ids=str)
@pytest.mark.parametrize("size", [None, (32, 64), (54, 96), CenterCrop((44, 46), resize=46)], ids=str)
def test_the_frames_asked_for_come_out_in_the_order_asked(film: Film, size: Any, video_of: VideoOf) -> None:
    frames = [7, 3, 3, film.num_frames - 1, *range(10, 40, 6)]
    planes, colour = decode(video_of(film), frames, size)
    assert numbers(planes) == [film.numbers[frame] for frame in frames]
    assert (colour.matrix, colour.full_range) == ("bt601", film.codec == "mjpeg")


@pytest.mark.parametrize("film", [film for film in FILMS if film.codec != "mjpeg"], ids=str)
def test_at_native_size_no_byte_is_changed(film: Film, video_of: VideoOf, film_file: FilmFolder) -> None:
    frames = [0, 31, 17, film.num_frames - 1]
    planes, colour = decode(video_of(film), frames)
    whole = linear_planes(film_file(film))
    for found, frame in zip(planes, frames, strict=True):
        assert all(np.array_equal(*pair) for pair in zip(split_planes(found), whole[frame], strict=True))
    assert colour == PlaneColour("bt601", False, LEFT)


@pytest.mark.parametrize("window", [(0, 0, 256, 144), (10, 6, 100, 80), (11, 6, 100, 80), (10, 7, 100, 80)], ids=str)
@pytest.mark.parametrize("odd", [(155, 63), (1, 1)], ids=str)
def test_windows_are_cut_to_the_pixel(
    window: tuple[int, int, int, int], odd: tuple[int, int], video_of: VideoOf, film_file: FilmFolder
) -> None:
    """Where a window begins between chroma samples, chroma begins with the next one and its siting says so."""
    whole = linear_planes(film_file("h264_moving"))[9]
    for x, y, width, height in (window, (*odd, 100, 80)):
        placement = Placement((0, 0, 256, 144), (256, 144), (x, y, width, height))
        planes, colour = decode(video_of("h264_moving"), [9], placement)
        luma, *chroma = split_planes(planes[0])
        assert np.array_equal(luma, whole[0][y : y + height, x : x + width])
        left, top = (x + 1) // 2, (y + 1) // 2
        for found, plane in zip(chroma, whole[1:], strict=True):
            assert np.array_equal(found, plane[top : top + height // 2, left : left + width // 2])
        assert colour.siting == (x % 2, 0.5 + y % 2)


@pytest.mark.parametrize(("x", "y"), [(11, 6), (10, 7), (1, 1), (155, 63)])
def test_a_window_between_chroma_samples_has_the_same_colours(x: int, y: int, video_of: VideoOf) -> None:
    whole, colour = decode(video_of("h264_moving"), [9])
    placement = Placement((0, 0, 256, 144), (256, 144), (x, y, 100, 80))
    part, shifted = decode(video_of("h264_moving"), [9], placement)
    wanted = planes_to_rgb(whole[0], colour)[y : y + 80, x : x + 100]
    found = planes_to_rgb(part[0], shifted)
    inner = (slice(2, -2), slice(2, -2))  # at the rim, the sample beyond is cut off
    assert np.abs(found[inner] - wanted[inner]).max() < 1e-9
    assert np.abs(found - wanted).max() < 30


@pytest.mark.parametrize("crop", [(36, 20, 100, 60), (37, 20, 100, 60), (36, 21, 101, 61)], ids=str)
@pytest.mark.parametrize("scaled", [(100, 60), (71, 44)], ids=str)
def test_crops_lie_where_those_of_the_rgb_path_lie(
    crop: tuple[int, int, int, int], scaled: tuple[int, int], video_of: VideoOf
) -> None:
    video = video_of("h264_moving")
    for offset in ((0, 0), (1, 0), (0, 1)):
        placement = Placement(crop, scaled, (*offset, 70, 42))
        planes, colour = decode(video, [9], placement)
        error = planes_to_rgb(planes[0], colour) - decode_rgb(video, [9], placement)[0]
        assert np.abs(error @ [0.299, 0.587, 0.114]).mean() < 2.5
        assert np.abs(error).mean() < 4


@pytest.mark.parametrize("crop", [(37, 20, 100, 60), (36, 21, 101, 61), (37, 21, 100, 60)], ids=str)
def test_a_crop_between_chroma_samples_keeps_chroma_in_its_place(
    crop: tuple[int, int, int, int], video_of: VideoOf
) -> None:
    """Cut without regard to that, it would be off by half a sample: up to 8 levels here."""
    whole, colour = decode(video_of("h264_moving"), [9])
    planes, found = decode(video_of("h264_moving"), [9], Placement(crop, crop[2:], (0, 0, 100, 60)))
    error = planes_to_rgb(planes[0], found) - planes_to_rgb(whole[0], colour)[crop[1] :, crop[0] :][:60, :100]
    assert np.abs(error[2:-2, 2:-2]).max() < 5.5
    luma = split_planes(whole[0])[0][crop[1] :, crop[0] :][:60, :100]
    assert np.array_equal(split_planes(planes[0])[0], luma)


TURNS = [(degrees, mirrored) for degrees in (0, 90, 180, 270) for mirrored in (False, True)]


@pytest.mark.parametrize("turn", TURNS, ids=lambda turn: f"{turn[0]}{'-mirrored' if turn[1] else ''}")
@pytest.mark.parametrize("flip", [False, True])
def test_turned_and_mirrored_films_have_the_colours_of_the_plain_one(
    turn: tuple[int, bool], flip: bool, video_of: VideoOf, film_file: FilmFolder, tmp_path: Path
) -> None:
    """To a rounding error: chroma stays where it was seen, on whichever side of a pixel that now is."""
    degrees = turn[0] if turn[1] else -turn[0] % 360
    video = demux_video(remux(film_file("h264_moving"), tmp_path / "turned.mp4", rotation=(degrees, turn[1])))
    assert (video.rotation, video.mirrored) == turn
    plain, colour = decode(video_of("h264_moving"), [9])
    wanted = planes_to_rgb(plain[0], colour)
    wanted = np.rot90(wanted[:, ::-1] if turn[1] else wanted, -turn[0] // 90)
    wanted = wanted[:, ::-1] if flip else wanted
    width, height = video.display_size
    for x, y, w, h in ((0, 0, width, height), (12, 34, 90, 60), (7, 9, 90, 60)):
        placement = Placement((0, 0, width, height), (width, height), (x, y, w, h), flip)
        planes, found = decode(video, [9], placement)
        part = wanted[y : y + h, (width - x - w if flip else x) :][:, :w]
        error = np.abs(planes_to_rgb(planes[0], found) - part)[2:-2, 2:-2]
        assert error.max() < 1e-9


def test_a_flipped_clip_is_the_mirrored_one(video_of: VideoOf) -> None:
    video = video_of("h264_moving")
    for scaled, x in (((256, 144), 0), ((192, 108), 3)):
        plain, colour = decode(video, [9], Placement((0, 0, 256, 144), scaled, (x, 0, 96, 90)))
        flipped, other = decode(video, [9], Placement((0, 0, 256, 144), scaled, (x, 0, 96, 90), True))
        assert np.abs(planes_to_rgb(flipped[0], other) - planes_to_rgb(plain[0], colour)[:, ::-1]).max() < 1e-9


def test_both_forms_can_come_from_one_decoder(video_of: VideoOf) -> None:
    backends, video = Backends("pyav"), video_of("h264_moving")
    placement = RandomResizedCrop(64).plan(*video.display_size, lambda: 0.5)
    planes, rgb = decode(video, [4, 9], placement)[0], decode_rgb(video, [4, 9], placement)
    for _ in range(2):
        assert np.array_equal(decode(video, [4, 9], placement, backends=backends)[0], planes)
        out = np.empty_like(rgb)
        assert backends.decode(video, [4, 9], placement, out).colour is None
        assert np.array_equal(out, rgb)


def test_only_pyav_gives_planes(video_of: VideoOf) -> None:
    video = video_of("h264_bframes")
    assert Backends("auto").choose(video, "yuv420").name == "pyav"
    with pytest.raises(ArgumentError, match=r"decoder='decord': it gives RGB only, .*use decoder='pyav' or 'auto'"):
        decode(video, [1], backends=Backends("decord"))


def test_odd_sides_and_other_memory_are_refused(video_of: VideoOf) -> None:
    video, out = video_of("h264_bframes"), np.zeros((1, 96, 64), np.uint8)
    placement = Placement((0, 0, 256, 128), (64, 64), (0, 0, 64, 63))
    with pytest.raises(ArgumentError, match="64 pixels wide and 63 high: both have to be even"):
        Backends().decode(video, [1], placement, out, wire="yuv420")
    placement = Placement((0, 0, 256, 128), (64, 64), (0, 0, 64, 64))
    for memory in (out[:, :90], np.zeros((1, 64, 64, 3), np.uint8), np.zeros((1, 96, 128), np.uint8)[:, :, ::2]):
        with pytest.raises(ArgumentError, match=r"give uint8\[1, 96, 64\], in one piece"):
            Backends().decode(video, [1], placement, memory, wire="yuv420")
    with pytest.raises(ArgumentError, match="wire='nv12'"):
        Backends().decode(video, [1], placement, out, wire="nv12")  # type: ignore[arg-type]
