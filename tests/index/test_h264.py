"""Missing H.264 packets: noticed by the count of reference pictures, and never where nothing is missing."""

from __future__ import annotations

import random
from pathlib import Path

import av
import numpy as np
import pytest

from tests.backends import BACKENDS
from tests.films import FILMS, Film, FilmFolder, real_footage, remux
from vidload.check.film import check_film
from vidload.decode.film import open_video
from vidload.errors import DecodeError
from vidload.index.demux import demux_video
from vidload.index.h264 import Picture, picture_reader
from vidload.index.video import BROKEN, DISPOSABLE, KEY
from vidload.synthetic import read_number

H264 = [film for film in FILMS if film.codec == "h264"]


@pytest.mark.parametrize("film", H264, ids=str)
def test_nothing_is_missing_from_whole_films(film: Film, film_file: FilmFolder) -> None:
    assert not np.any(demux_video(film_file(film)).packet_flags & BROKEN)


def test_nothing_is_missing_from_real_footage() -> None:
    for path in real_footage():
        assert not np.any(demux_video(path).packet_flags & BROKEN)


@pytest.mark.parametrize("name", ["h264_bframes", "h264_moving", "h264_mkv", "h264_open_gop", "h264_ts"])
@pytest.mark.parametrize("lost", ["reference", "keyframe"])
def test_no_frame_is_given_that_refers_to_a_missing_packet(
    name: str, lost: str, film_file: FilmFolder, tmp_path: Path
) -> None:
    video = demux_video(film_file(name))
    clean = open_video(film_file(name)).frames(range(video.num_frames))
    pictures = {read_number(picture): picture for picture in clean}
    keys = np.flatnonzero(video.packet_flags & KEY)[1:]
    references = np.flatnonzero(video.packet_flags & (KEY | DISPOSABLE) == 0)
    for packet in random.Random(name).sample((keys if lost == "keyframe" else references).tolist(), 3):
        path = remux(film_file(name), tmp_path / f"{packet}{film_file(name).suffix}", drop=[packet])
        refused = 0
        with open_video(path) as film:
            for number in range(len(film)):
                try:
                    frame = film.frames([number])[0]
                except DecodeError as error:
                    assert f"frame {number}: " in str(error)  # noqa: PT017
                    refused += 1
                else:
                    assert np.array_equal(pictures[read_number(frame)], frame)
        assert 0 < refused < 40
        assert any(finding.bad for finding in check_film(demux_video(path)))


@pytest.mark.parametrize("decoder", BACKENDS)
def test_every_backend_refuses_it(decoder: str, film_file: FilmFolder, tmp_path: Path) -> None:
    path = remux(film_file("h264_intra"), tmp_path / "intra.mp4", drop=[5])
    with open_video(path, decoder) as film:  # type: ignore[arg-type]
        assert len(film.frames(range(len(film)))) == 59  # keyframes need nothing
    video = demux_video(film_file("h264_moving"))
    packet = int(np.flatnonzero(video.packet_flags & (KEY | DISPOSABLE) == 0)[3])
    path = remux(film_file("h264_moving"), tmp_path / "moving.mp4", drop=[packet])
    broken = demux_video(path)
    number = int(np.flatnonzero(broken.packet_flags[broken.frame_packets] & BROKEN)[0])
    film = open_video(path, decoder)  # type: ignore[arg-type]
    with pytest.raises(
        DecodeError, match=rf"frame {number}: its packet is cut short, or one it may refer to is missing"
    ):
        film.frames([number])
    with open_video(path, concealed="allow") as film:
        assert film.frames([number]).shape == (1, 144, 256, 3)


def test_gaps_that_a_stream_allows_are_none() -> None:
    one, three = Picture(1, 16, True, False, True), Picture(3, 16, True, False, True)
    assert three.follows(one)
    assert not Picture(3, 16, True, False, False).follows(one)
    assert Picture(0, 16, True, False, False).follows(Picture(15, 16, True, False, False))
    assert Picture(7, 16, True, False, False).follows(Picture(7, 16, True, False, False))  # a second field
    assert Picture(0, 16, True, True, False).follows(Picture(9, 16, True, False, False))


@pytest.mark.parametrize(
    "options",
    [
        {"profile": "baseline"},
        {"profile": "high"},
        {"x264-params": "interlaced=1"},
        {"x264-params": "cqm=jvt"},
        {"x264-params": "weightp=0:ref=8:bframes=8:b-pyramid=normal"},
    ],
    ids=str,
)
@pytest.mark.parametrize("suffix", [".mp4", ".ts"])
def test_numbers_are_read_from_every_kind_of_stream(options: dict[str, str], suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"g": "12", "sc_threshold": "0", **options})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for number in range(40):
            picture = np.random.default_rng(number).integers(0, 255, (64, 64, 3), np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode(None))
    with av.open(str(path)) as container:
        video = container.streams.video[0]
        read = picture_reader(video.codec_context.extradata)
        pictures = [read(bytes(packet)) for packet in container.demux(video) if packet.size]
    assert len(pictures) == 40
    assert all(picture is not None for picture in pictures)
    before = None
    for picture in pictures:
        assert picture is not None
        assert before is None or picture.follows(before)
        before = picture if picture.reference else before
    assert len({picture.number for picture in pictures if picture}) > 3


def test_nothing_is_claimed_of_what_is_no_stream() -> None:
    assert picture_reader(None)(b"") is None
    assert picture_reader(b"\x01d\x00")(b"\x00\x00\x00\x05\x65abcd") is None
    assert picture_reader(b"\x01" + bytes(20))(b"\xff" * 40) is None
