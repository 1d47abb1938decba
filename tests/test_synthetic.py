from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest

from tests.films import FILMS, FILMS_BY_NAME, Film, FilmFolder
from vidload.errors import ArgumentError
from vidload.synthetic import loop_film, make_frame, read_number, write_film

NUMBERS = [0, 1, 2, 3, 255, 256, 300, 4095, 4096, 21845, 43690, 65534, 65535]
SIZES = [(256, 128), (128, 256), (640, 360), (64, 32), (16, 16), (131, 77)]


def decode(path: Path) -> list[av.VideoFrame]:
    with av.open(str(path)) as container:
        return list(container.decode(video=0))


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_a_drawn_number_reads_back(width: int, height: int) -> None:
    frames = [make_frame(number, width, height) for number in NUMBERS]
    assert all(frame.shape == (height, width, 3) and frame.dtype == np.uint8 for frame in frames)
    assert [read_number(frame) for frame in frames] == NUMBERS


def test_numbers_all_over_the_range_read_back() -> None:
    assert all(read_number(make_frame(number, 16, 16)) == number for number in range(0, 65536, 31))


def test_a_centre_square_keeps_the_number() -> None:
    assert read_number(make_frame(1234, 256, 128)[:, 64:192]) == 1234
    assert read_number(make_frame(1234, 640, 360)[:, 140:500]) == 1234


def test_a_squeezed_picture_reads_with_its_aspect() -> None:
    squeezed = make_frame(1234, 256, 128)[:, ::2]
    assert read_number(squeezed) == -1
    assert read_number(squeezed, aspect=2) == 1234


def test_a_turned_or_mirrored_picture_does_not_read() -> None:
    for number in range(0, 65536, 499):
        frame = make_frame(number, 32, 32)
        for turns, flip in itertools.product(range(4), (False, True)):
            turned = np.rot90(frame[:, ::-1] if flip else frame, turns)
            assert read_number(turned) == (number if (turns, flip) == (0, False) else -1)
        assert read_number(frame[:, ::-1], mirrored=True) == number
        assert read_number(frame, mirrored=True) == -1


def test_a_blend_of_two_frames_is_never_a_third_number() -> None:
    for number in range(0, 5000, 29):
        first, second = make_frame(number, 64, 32), make_frame(number + 1, 64, 32)
        assert read_number(first // 2 + second // 2) in (-1, number, number + 1)


@pytest.mark.parametrize("level", [0, 16, 128, 255])
def test_a_blank_picture_does_not_read(level: int) -> None:
    assert read_number(np.full((64, 128, 3), level, np.uint8)) == -1


def test_contrast_and_brightness_do_not_matter() -> None:
    frame = make_frame(777, 128, 64).astype(float)
    assert read_number(frame * 0.6 + 100) == 777
    assert read_number(frame[..., 0]) == 777


@pytest.mark.parametrize("film", FILMS, ids=str)
def test_a_film_reads_back_frame_by_frame(film: Film, film_file: FilmFolder) -> None:
    frames = decode(film_file(film))
    assert [read_number(frame.to_ndarray(format="rgb24")) for frame in frames] == film.numbers
    assert [read_number(frame.reformat(64, 32, "rgb24").to_ndarray()) for frame in frames] == film.numbers
    if film.suffix != ".avi":
        times = np.array([frame.time for frame in frames])
        np.testing.assert_allclose(times - times[0], film.pts, atol=1e-9)


@pytest.mark.parametrize("film", FILMS, ids=str)
def test_a_film_has_the_stated_codec(film: Film, film_file: FilmFolder) -> None:
    with av.open(str(film_file(film))) as container:
        assert container.streams.video[0].codec_context.codec.canonical_name == film.codec


def key_flags(path: Path) -> list[bool]:
    with av.open(str(path)) as container:
        return [packet.is_keyframe for packet in container.demux(video=0) if packet.size]


def test_keyframes_come_where_asked(film_file: FilmFolder) -> None:
    assert [index for index, key in enumerate(key_flags(film_file("h264_bframes"))) if key] == list(range(0, 100, 12))
    assert sum(key_flags(film_file("h264_one_gop"))) == 1
    assert all(key_flags(film_file("h264_intra")))


@pytest.mark.parametrize("name", ["h264_open_gop", "hevc_open_gop"])
def test_an_open_gop_shows_frames_before_its_keyframe(name: str, film_file: FilmFolder) -> None:
    with av.open(str(film_file(name))) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    key = next(index for index, packet in enumerate(packets) if index and packet.is_keyframe)
    assert packets[key + 1].pts < packets[key].pts


def test_the_same_arguments_give_the_same_bytes(film_file: FilmFolder, tmp_path: Path) -> None:
    for film in FILMS:
        assert film.write(tmp_path).read_bytes() == film_file(film).read_bytes(), film


def mean_change(path: Path) -> float:
    """Mean difference of neighbouring frames beside the mark, in levels."""
    edges = [frame.to_ndarray(format="rgb24")[:, :30].astype(int) for frame in decode(path)]
    return float(np.mean([np.abs(one - other).mean() for one, other in itertools.pairwise(edges)]))


def test_a_moving_film_moves_and_costs_more(film_file: FilmFolder, tmp_path: Path) -> None:
    still, moving = write_film(tmp_path / "still.mp4", 60, width=256, height=144), film_file("h264_moving")
    assert moving.stat().st_size > 2 * still.stat().st_size
    assert mean_change(still) < 0.1
    assert mean_change(moving) > 1


def test_looks_differ(tmp_path: Path) -> None:
    paths = [write_film(tmp_path / f"{look}.mp4", 2, moving=True, look=look) for look in (0, 1)]
    first, second = (decode(path)[0].to_ndarray(format="rgb24").astype(int) for path in paths)
    assert read_number(first) == read_number(second) == 0
    assert np.abs(first - second).mean() > 5


@pytest.mark.parametrize("name", ["h264_bframes", "h264_variable", "hevc", "vp9", "mpeg4"])
def test_a_looped_film_repeats_frames_and_their_times(name: str, film_file: FilmFolder, tmp_path: Path) -> None:
    film = FILMS_BY_NAME[name]
    frames = decode(loop_film(film_file(name), tmp_path / f"long{film.suffix}", 3))
    assert [read_number(frame.to_ndarray(format="rgb24")) for frame in frames] == 3 * film.numbers
    times = np.array([frame.time for frame in frames]).reshape(3, -1)
    np.testing.assert_allclose(times - times[:, :1], np.stack([film.pts] * 3), atol=1e-9)
    assert (np.diff(times.ravel()) > 0).all()


def test_writing_prints_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from vidload.synthetic import ENCODERS, write_film\n"
        "for codec in ENCODERS: write_film(Path(sys.argv[1], codec + '.mkv'), 5, codec=codec)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"num_frames": 0}, "num_frames"),
        ({"num_frames": 2, "width": 129}, "width"),
        ({"num_frames": 2, "height": 8}, "height"),
        ({"num_frames": 2, "codec": "h264"}, "codec"),
        ({"num_frames": 2, "first_number": -1}, "first_number"),
        ({"num_frames": 2, "first_number": 65535}, "first_number"),
        ({"num_frames": 2, "pts": [0]}, "pts"),
        ({"num_frames": 2, "pts": [5, 5]}, "pts"),
    ],
)
def test_impossible_films_are_refused(arguments: dict, named: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=named):
        write_film(tmp_path / "film.mp4", **arguments)
    assert not list(tmp_path.iterdir())


def test_looping_less_than_once_is_refused(film_file: FilmFolder, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="times=0"):
        loop_film(film_file("h264_bframes"), tmp_path / "long.mp4", 0)


def test_a_number_of_17_bits_is_refused() -> None:
    with pytest.raises(ArgumentError, match="65536"):
        make_frame(65536)


def test_real_footage_is_there(footage: list[Path]) -> None:
    assert [path.name for path in footage] == ["bikes.mp4", "bigbuckbunny.mp4"]
    assert [len(decode(path)) for path in footage] == [250, 132]


def test_writing_av1_leaves_the_process_as_it_was(tmp_path: Path) -> None:
    """SVT-AV1 makes a privileged process a real-time one, and workers started later stopped all else."""
    before = os.sched_getscheduler(0)
    write_film(tmp_path / "film.mp4", 4, width=64, height=64, codec="libsvtav1")
    assert os.sched_getscheduler(0) == before
