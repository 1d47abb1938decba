"""Sizes read from packets' headers: of films, and of films whose picture changes its size."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import pytest

from tests.films import Film
from vidload.decode.dali import dali_slice_reason
from vidload.decode.sizes import picture_sizes
from vidload.decode.source import read_slice
from vidload.index.demux import demux_video
from vidload.index.video import Video
from vidload.synthetic import make_frame

CODECS = {"vp8": "libvpx", "vp9": "libvpx-vp9", "mjpeg": "mjpeg"}


@pytest.mark.parametrize("film", ["vp8", "vp9", "vp9_mp4", "mjpeg_avi"])
def test_keyframes_state_the_size_of_the_film(film: str, video_of: Callable[[Film | str], Video]) -> None:
    video = video_of(film)
    stated = [picture_sizes(video.codec, packet) for _, packet in read_slice(video, range(video.num_frames)).packets()]
    assert {size for sizes in stated for size in sizes} == {(video.width, video.height)}
    assert stated[0]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("sizes", [[(128, 64), (256, 128)], [(256, 128), (128, 64)]])
def test_a_slice_in_which_the_size_changes_is_not_for_dali(
    codec: str, sizes: list[tuple[int, int]], tmp_path: Path
) -> None:
    path = tmp_path / "sizes.mkv"
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(CODECS[codec], rate=25)
        stream.width, stream.height = sizes[0]
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        for number, size in enumerate(sizes):
            for packet in encode(CODECS[codec], *size, first=10 * number):
                packet.stream = stream
                container.mux(packet)
    video = demux_video(path)
    assert dali_slice_reason("cpu", read_slice(video, [0, 9])) is None
    for frames in ([0, 15], [12]):
        reason = str(dali_slice_reason("cpu", read_slice(video, frames)))
        assert f"the picture is {sizes[1][0]}×{sizes[1][1]} here" in reason


def encode(encoder: str, width: int, height: int, first: int) -> list[Any]:
    context: Any = av.CodecContext.create(encoder, "w")
    context.width, context.height, context.time_base = width, height, Fraction(1, 25)
    context.pix_fmt = "yuvj420p" if encoder == "mjpeg" else "yuv420p"
    packets = []
    for number in range(first, first + 10):
        frame = av.VideoFrame.from_ndarray(make_frame(number, width, height), format="rgb24")
        frame = frame.reformat(format=context.pix_fmt)
        frame.pts, frame.time_base = number, Fraction(1, 25)
        packets += context.encode(frame)
    return packets + context.encode(None)


@pytest.mark.parametrize("codec", [*CODECS, "h264"])
def test_damaged_packets_are_no_error(codec: str) -> None:
    for packet in (b"", b"\xff" * 5, b"\xff" * 100, b"\x00" * 3, b"\xff\xd8" + b"\xff\xe0\x00\x00" * 20):
        assert isinstance(picture_sizes(codec, packet), list)
