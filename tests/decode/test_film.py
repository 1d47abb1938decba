"""`open_video`: a film to look at, frames by number and by time."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import vidload
from tests.backends import BACKENDS
from tests.films import FILMS, Film, FilmFolder
from vidload.decode.film import open_video
from vidload.errors import ArgumentError, StaleIndexError, UnreadableVideoError
from vidload.synthetic import read_number
from vidload.transforms.geometry import CenterCrop, RandomResizedCrop, Resize

decoders = pytest.mark.parametrize("decoder", ["auto", *BACKENDS])


@pytest.mark.parametrize("film", FILMS, ids=str)
def test_a_film_tells_its_size_length_and_times(film: Film, film_file: FilmFolder) -> None:
    with open_video(film_file(film)) as opened:
        assert len(opened) == film.num_frames
        assert (opened.width, opened.height) == (film.width, film.height)
        assert opened.pts.dtype == np.float64
        assert np.abs(opened.pts - opened.pts[0] - film.pts).max() < 0.001
        if film.pts_ms is None:
            assert opened.fps == pytest.approx(25)
        assert opened.frames([0]).shape == (1, film.height, film.width, 3)


@decoders
@pytest.mark.parametrize("name", ["h264_bframes", "h264_ts", "vp9"])
def test_frames_come_in_the_order_asked(name: str, decoder: str, film_file: FilmFolder) -> None:
    with open_video(film_file(name), decoder) as film:
        for numbers in ([3], [50, 2, 2, 31], range(10, 0, -3), np.array([7, 5]), (1, 1, 1)):
            frames = film.frames(numbers)
            assert frames.dtype == np.uint8
            assert [read_number(frame) for frame in frames] == [100 + number for number in numbers]


def test_negative_numbers_count_from_the_end(film_file: FilmFolder) -> None:
    with open_video(film_file("h264_bframes")) as film:
        assert [read_number(frame) for frame in film.frames([-1, 0, -100, 99, -3])] == [199, 100, 100, 199, 197]


@pytest.mark.parametrize("numbers", [[100], [0, -101], [10**12]])
def test_numbers_outside_the_film_are_refused(numbers: list[int], film_file: FilmFolder) -> None:
    with (
        open_video(film_file("h264_bframes")) as film,
        pytest.raises(ArgumentError, match=r"h264_bframes\.mp4: frame -?\d+ is outside the video, which has 100"),
    ):
        film.frames(numbers)


@pytest.mark.parametrize("numbers", [[0.5], [[0, 1]], 3, ["a"], [True]], ids=str)
def test_numbers_that_are_none_are_refused(numbers: object, film_file: FilmFolder) -> None:
    with (
        open_video(film_file("h264_bframes")) as film,
        pytest.raises(ArgumentError, match="give a list of frame numbers"),
    ):
        film.frames(numbers)  # type: ignore[arg-type]


def test_no_numbers_give_no_frames(film_file: FilmFolder) -> None:
    with open_video(film_file("h264_bframes")) as film:
        assert film.frames([]).shape == (0, 128, 256, 3)
        assert film.frames([], size=32).shape == (0, 32, 32, 3)


@decoders
def test_frames_are_scaled_where_a_size_is_given(decoder: str, film_file: FilmFolder) -> None:
    with open_video(film_file("h264_bframes"), decoder) as film:
        sizes = [(64, (64, 64)), ((64, 128), (64, 128)), (CenterCrop(56, resize=64), (56, 56))]
        sizes += [(Resize((100, 200)), (100, 200)), (RandomResizedCrop(40), (40, 40)), (None, (128, 256))]
        for size, shape in sizes:
            assert film.frames([30, 2], size=size).shape == (2, *shape, 3)
        assert [read_number(frame) for frame in film.frames([30, 2], size=64)] == [130, 102]
        assert read_number(film.at(1.0, size=(64, 128))) == 125


@pytest.mark.parametrize("size", [0, -1, (10, 0), (1, 2, 3), "224", 1.5, 10**6], ids=str)
def test_an_impossible_size_is_refused(size: object, film_file: FilmFolder) -> None:
    with open_video(film_file("h264_bframes")) as film, pytest.raises(ArgumentError, match="size="):
        film.frames([0], size=size)  # type: ignore[arg-type]


@pytest.mark.parametrize("film", FILMS, ids=str)
def test_a_frame_is_found_by_its_own_time(film: Film, film_file: FilmFolder) -> None:
    with open_video(film_file(film)) as opened:
        for number in (0, 1, 29, film.num_frames - 1):
            assert read_number(opened.at(opened.pts[number])) == film.numbers[number]
            assert read_number(opened.at(float(str(round(opened.pts[number], 9))))) == film.numbers[number]


@pytest.mark.parametrize("film", FILMS, ids=str)
def test_a_frame_is_shown_until_the_next_one(film: Film, film_file: FilmFolder) -> None:
    with open_video(film_file(film)) as opened:
        for number in (0, 7, 40):
            length = opened.pts[number + 1] - opened.pts[number]
            for share in (0.3, 0.6, 0.9):
                moment = opened.pts[number] + share * length
                assert read_number(opened.at(moment)) == film.numbers[number], (number, share)


def test_the_last_frame_is_shown_to_the_end(film_file: FilmFolder) -> None:
    with open_video(film_file("h264_variable")) as film:
        assert read_number(film.at(film.pts[-1] + 0.001)) == 159
        assert read_number(film.at(film.pts[0] + film.video.duration)) == 159


@pytest.mark.parametrize("seconds", [-0.5, 4.5, 1e9, math.nan, math.inf, -math.inf])
def test_a_time_outside_the_film_is_refused(seconds: float, film_file: FilmFolder) -> None:
    with (
        open_video(film_file("h264_bframes")) as film,
        pytest.raises(ArgumentError, match=r"h264_bframes\.mp4: \S+ s is outside the film, which goes from 0.0 to 4.0"),
    ):
        film.at(seconds)


def test_times_of_a_film_that_starts_late_are_its_own(film_file: FilmFolder) -> None:
    with open_video(film_file("h264_ts")) as film:
        start = film.pts[0]
        assert start > 0.05  # MPEG-TS: as late as its frames are reordered
        assert read_number(film.at(start + 1.0)) == 125
        with pytest.raises(ArgumentError, match="is outside the film"):
            film.at(start - 0.05)


def test_a_film_can_be_read_after_its_block(film_file: FilmFolder) -> None:
    with open_video(film_file("hevc")) as film:
        film.frames([0])
    film.close()
    assert read_number(film.frames([20])[0]) == 120


def test_repr_names_the_film(film_file: FilmFolder) -> None:
    film = open_video(film_file("h264_bframes"))
    assert "h264_bframes.mp4" in repr(film)
    assert "100 frames of 256×128, h264, 25.000 fps" in repr(film)


def test_it_is_part_of_the_public_face(film_file: FilmFolder) -> None:
    assert vidload.open_video is open_video
    assert isinstance(open_video(str(film_file("vp8"))), vidload.Film)


def test_a_decoder_that_does_not_exist_is_refused(film_file: FilmFolder) -> None:
    with pytest.raises(ArgumentError, match="decoder='opencv': there are 'auto', 'decord', 'pyav'"):
        open_video(film_file("vp8"), "opencv")  # type: ignore[arg-type]


def test_a_missing_film_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableVideoError, match=r"gone\.mp4: No such file"):
        open_video(tmp_path / "gone.mp4")
    with pytest.raises(OSError, match=r"gone\.mp4"):
        open_video(tmp_path / "gone.mp4")


def test_a_film_that_changed_while_it_was_open_is_noticed(film_file: FilmFolder, tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    path.write_bytes(film_file("hevc").read_bytes())
    with open_video(path) as film:
        film.frames([1])
        path.write_bytes(film_file("h264_intra").read_bytes())
        with pytest.raises(StaleIndexError, match=r"film\.mp4: changed"):
            film.frames([1])


@decoders
def test_names_with_odd_characters_are_files(decoder: str, film_file: FilmFolder, tmp_path: Path) -> None:
    for name in ("a b#1 %25 %03d 'q' [x] ü视频.mp4", "a:b.mp4", "-i.mp4", "http.mp4"):
        path = tmp_path / name
        path.write_bytes(film_file("h264_intra").read_bytes())
        with open_video(path, decoder) as film:
            assert read_number(film.frames([5])[0]) == 105


def test_a_relative_name_is_a_file(film_file: FilmFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a:b.mp4").write_bytes(film_file("h264_intra").read_bytes())
    monkeypatch.chdir(tmp_path)
    film = open_video("a:b.mp4")
    monkeypatch.chdir("/")
    assert read_number(film.frames([5])[0]) == 105
