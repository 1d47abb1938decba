"""Keyframes that a container claims and that are none: decoding never starts there."""

from __future__ import annotations

import random
from pathlib import Path

import av
import numpy as np
import pytest

from tests.backends import BACKENDS
from tests.films import FilmFolder
from vidload.decode.backends import decord_reason
from vidload.decode.film import open_video
from vidload.decode.torchcodec import torchcodec_reason
from vidload.errors import DecodeError
from vidload.index.demux import demux_video
from vidload.index.video import KEY, REFRESH
from vidload.synthetic import make_frame, read_number, write_film


def claim_all(source: Path, path: Path) -> Path:
    """A copy of a film in which every packet is flagged as a keyframe."""
    with av.open(str(source)) as film, av.open(str(path), "w") as copy:
        stream = film.streams.video[0]
        out = copy.add_stream_from_template(stream, opaque=True)
        for packet in film.demux(stream):
            if packet.size:
                packet.is_keyframe = True
                packet.stream = out
                copy.mux(packet)
    return path


@pytest.mark.parametrize("decoder", BACKENDS)
@pytest.mark.parametrize("name", ["h264_bframes", "h264_mkv", "hevc", "hevc_mkv", "vp8", "vp9", "vp9_mp4", "mpeg4"])
def test_packets_that_are_wrongly_flagged_are_found_out(
    name: str, decoder: str, film_file: FilmFolder, tmp_path: Path
) -> None:
    path = claim_all(film_file(name), tmp_path / film_file(name).name)
    with av.open(str(path)) as container:  # some muxers look for themselves
        flagged = sum(packet.is_keyframe for packet in container.demux(video=0) if packet.size)
    video = demux_video(path)
    assert np.count_nonzero(video.packet_flags & KEY) == np.count_nonzero(
        demux_video(film_file(name)).packet_flags & KEY
    )
    assert flagged > 10 or name.startswith(("vp", "h264"))  # those are corrected by libavformat's parsers already
    draw = random.Random(name)
    with open_video(path, decoder) as film:  # type: ignore[arg-type]
        for _ in range(10):
            wanted = [draw.randrange(len(film)) for _ in range(3)]
            assert [read_number(frame) for frame in film.frames(wanted)] == [100 + number for number in wanted]


@pytest.fixture
def refreshed(tmp_path: Path) -> Path:
    """A film of one IDR picture, whose pictures are refreshed column by column."""
    path = tmp_path / "refreshed.mp4"
    with av.open(str(path), "w") as container:
        options = {"x264-params": "intra-refresh=1:keyint=20:scenecut=0:bframes=0"}
        stream = container.add_stream("libx264", rate=25, options=options)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 256, 128, "yuv420p"
        with av.open(str(write_film(tmp_path / "plain.mp4", 100, moving=True))) as plain:
            for number, frame in enumerate(plain.decode(video=0)):
                made = av.VideoFrame.from_ndarray(frame.to_ndarray(format="rgb24"), "rgb24")
                made.pts = number
                container.mux(stream.encode(made))
        container.mux(stream.encode(None))
    return path


def test_a_film_that_is_refreshed_little_by_little_is_pyavs(refreshed: Path) -> None:
    video = demux_video(refreshed)
    assert np.count_nonzero(video.packet_flags & REFRESH) >= 4
    with open_video(refreshed) as film:
        whole = film.frames(range(100))
        assert [read_number(frame) for frame in whole] == list(range(100))
        for number in (99, 41, 60, 20, 79, 80, 98):
            assert np.array_equal(film.frames([number])[0], whole[number])
    reasons = {"decord": decord_reason(video), "torchcodec": torchcodec_reason(video)}
    for decoder, reason in reasons.items():
        assert reason is not None
        assert "little by little" in reason, decoder
    with pytest.raises(DecodeError, match=r"decord can't be used: its frames become whole little by little"):
        open_video(refreshed, "decord").frames([60])


def test_the_size_is_that_of_pictures(film_file: FilmFolder, tmp_path: Path) -> None:
    """The container's header may state another."""
    data = film_file("h264_bframes").read_bytes()
    at = (
        data.index(b"avc1", data.index(b"stsd")) + 4 + 24
    )  # width and height of the sample entry, ISO/IEC 14496-12, 12.1.3
    assert data[at : at + 4] == bytes([1, 0, 0, 128])
    path = tmp_path / "x.mp4"
    path.write_bytes(data[:at] + bytes([0, 250, 0, 100]) + data[at + 4 :])
    video = demux_video(path)
    assert (video.width, video.height) == (256, 128)
    with open_video(path) as film:
        assert read_number(film.frames([33])[0]) == 133


def test_codecs_that_do_not_tell_are_decoded_to_find_out(tmp_path: Path) -> None:
    """libavformat's AVI calls all of H.263 keyframes, whose packets aren't read; but it is decoded once in any case."""
    path = tmp_path / "x.avi"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("h263", rate=25, options={"q": "2", "g": "12"})
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 352, 288, "yuv420p"
        for number in range(40):
            picture = make_frame(number, 352, 288)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        container.mux(stream.encode(None))
    video = demux_video(path)
    assert 1 < np.count_nonzero(video.packet_flags & KEY) < 10
    with open_video(path) as film:
        for number in (39, 7, 20, 13, 0):
            assert read_number(film.frames([number])[0]) == number
