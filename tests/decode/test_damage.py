"""Damaged bytes: where PyAV's H.264 decoder notices, no frame that refers to the damaged one is given either."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from tests.backends import BACKENDS
from tests.films import Film, FilmFolder
from vidload.decode.film import Film as OpenedFilm
from vidload.decode.film import open_video
from vidload.decode.protocol import Frames
from vidload.errors import DecodeError
from vidload.index.video import DISPOSABLE, KEY, Video

VideoOf = Callable[[Film | str], Video]
Linear = Callable[[Film | str], Frames]


def damage(path: Path, video: Video, packet: int, how: str, draw: random.Random) -> None:
    """Overwrite some bytes of a packet in a film."""
    begin, size = int(video.packet_pos[packet]), int(video.packet_size[packet])
    data = bytearray(path.read_bytes())
    if how == "one bit":
        data[begin + draw.randrange(size // 4, size)] ^= 1 << draw.randrange(8)
    elif how == "zeros":
        data[begin + size // 2 : begin + size] = bytes(size - size // 2)
    else:  # how == "noise at its start"
        data[begin : begin + 16] = draw.randbytes(16)
    path.write_bytes(data)


def readable(film: OpenedFilm, clean: Frames) -> list[bool]:
    """For every frame whether it is given, and if so as in the clean film; else the error says which it is."""
    given = []
    for number in range(len(film)):
        message = ""
        try:
            frame = film.frames([number])[0]
        except DecodeError as error:
            message = str(error)
        given.append(not message)
        if message:
            assert re.search(rf"{re.escape(film.video.path)}: frame {number}: .*\(decoder pyav\)", message)
        else:
            assert np.array_equal(frame, clean[number]), number
    return given


@pytest.mark.parametrize("how", ["one bit", "zeros", "noise at its start"])
def test_frames_that_refer_to_a_damaged_one_are_errors_too(
    how: str, film_file: FilmFolder, tmp_path: Path, video_of: VideoOf, linear: Linear
) -> None:
    name, draw = "h264_moving", random.Random(how)
    video = video_of(name)
    references = np.flatnonzero(video.packet_flags & (KEY | DISPOSABLE) == 0)
    for packet in draw.sample(references.tolist(), 6):
        path = tmp_path / film_file(name).name
        path.write_bytes(film_file(name).read_bytes())
        damage(path, video, packet, how, draw)
        given = readable(open_video(path, "pyav"), linear(name))
        frame = int(np.flatnonzero(video.frame_packets == packet)[0])
        assert not given[frame]
        assert all(given[frame + 16 :])  # the GOPs around it are whole
        assert all(given[: max(frame - 15, 0)])


def test_an_error_names_all_frames_of_a_clip_that_are_damaged(
    film_file: FilmFolder, tmp_path: Path, video_of: VideoOf
) -> None:
    video = video_of("h264_intra")
    path = tmp_path / "film.mp4"
    path.write_bytes(film_file("h264_intra").read_bytes())
    for packet in (20, 30):
        damage(path, video, packet, "zeros", random.Random(0))
    with pytest.raises(DecodeError, match=r"film\.mp4: frames 20, 30: .*\(decoder pyav\)"):
        open_video(path, "pyav").frames([10, 20, 30, 40])


@pytest.mark.parametrize("decoder", BACKENDS)
@pytest.mark.parametrize("name", ["h264_moving", "hevc", "mpeg4"])
def test_both_backends_notice_a_packet_without_a_head(
    name: str, decoder: str, film_file: FilmFolder, tmp_path: Path, video_of: VideoOf
) -> None:
    video = video_of(name)
    packet = int(np.flatnonzero(video.packet_flags & (KEY | DISPOSABLE) == 0)[5])
    frame = int(np.flatnonzero(video.frame_packets == packet)[0])
    path = tmp_path / film_file(name).name
    path.write_bytes(film_file(name).read_bytes())
    damage(path, video, packet, "noise at its start", random.Random(3))
    with (
        open_video(path, decoder) as film,
        pytest.raises(DecodeError, match=rf"{re.escape(str(path))}: frame {frame}: .*decoder {decoder}"),
    ):
        film.frames([frame])


@pytest.mark.parametrize("decoder", BACKENDS)
def test_a_jpeg_without_its_start_is_no_grey_picture(
    decoder: str, film_file: FilmFolder, tmp_path: Path, video_of: VideoOf
) -> None:
    video = video_of("mjpeg_avi")
    path = tmp_path / "film.avi"
    data = bytearray(film_file("mjpeg_avi").read_bytes())
    at = int(video.packet_pos[7])
    data[at : at + 4] = bytes(4)
    path.write_bytes(data)
    with open_video(path, decoder) as film:
        film.frames([6, 8])
        with pytest.raises(DecodeError, match=r"film\.avi: frame 7: isn't a JPEG picture any more"):
            film.frames([6, 7, 8])


def test_hashes_that_a_film_has_of_its_pictures_are_compared(tmp_path: Path) -> None:
    """HEVC's decoder sees almost no damage; with x265's hash=1 it sees all of it."""
    path, draw = tmp_path / "hashed.mp4", random.Random(0)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx265", rate=25, options={"x265-params": "log-level=error:hash=1:keyint=12"})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 256, 128, "yuv420p"
        noise = np.random.default_rng(0)
        for _ in range(24):
            picture = noise.integers(0, 255, (128, 256, 3), np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode(None))
    clean, whole = open_video(path).frames(range(24)), path.read_bytes()
    video = open_video(path).video
    for packet in draw.sample(range(24), 6):
        path.write_bytes(whole)
        damage(path, video, packet, "one bit", draw)
        given = readable(open_video(path, "pyav"), clean)
        assert not given[int(np.flatnonzero(video.frame_packets == packet)[0])]
