"""What decord is given: little files that start with their only keyframe, a frame for each packet."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

import av
import numpy as np
import pytest

from tests.films import FILMS, Film
from vidload.decode.backends import Backends, decord_reason
from vidload.decode.container import mux_slice
from vidload.decode.source import read_slice
from vidload.index.video import KEY, Video
from vidload.synthetic import read_number
from vidload.transforms.geometry import NativeSize

VideoOf = Callable[[Film | str], Video]

for_decord = pytest.mark.parametrize("film", [f for f in FILMS if f.codec not in ("ffv1", "mpeg2video")], ids=str)


@dataclass(frozen=True)
class Demuxed:
    """Packets of a file in memory; `keys` are those that it can be entered at, by its own index."""

    container: str
    keys: list[int]
    dts: list[int]
    pts: list[int]
    sizes: list[int]


def demux(data: bytes) -> Demuxed:
    with av.open(io.BytesIO(data)) as container:
        keys = [at for at, entry in enumerate(container.streams.video[0].index_entries) if entry.is_keyframe]
        packets = [packet for packet in container.demux(video=0) if packet.size]
        return Demuxed(
            container.format.name,
            keys,
            [packet.dts for packet in packets],
            [packet.pts for packet in packets],
            [packet.size for packet in packets],
        )


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The files that decord opens, in order."""
    decord = pytest.importorskip("decord")
    opened: list[bytes] = []
    reader = decord.VideoReader

    def recording(file: io.BytesIO, **options: object) -> object:
        opened.append(file.getvalue())
        return reader(file, **options)

    monkeypatch.setattr(decord, "VideoReader", recording)
    return opened


def decode_by_decord(video: Video, frames: list[int]) -> list[int]:
    placement = NativeSize().plan(*video.display_size, lambda: 0.5)
    out = np.empty((len(frames), *video.display_size[::-1], 3), np.uint8)
    Backends("decord").decode(video, frames, placement, out)
    return [read_number(frame) for frame in out]


@for_decord
def test_only_the_first_packet_of_a_file_is_flagged_a_keyframe(
    film: Film, video_of: VideoOf, files: list[bytes]
) -> None:
    """With all keyframes flagged, decord gave wrong frames in 211 of 720 random slices (open GOPs and MPEG-4)."""
    video, frames = video_of(film), [2, 14, 22, 23, 27, 55]
    assert decord_reason(video) is None
    assert decode_by_decord(video, frames) == [film.numbers[i] for i in frames]
    assert files
    if film.codec != "mjpeg":  # where every packet is one, and mp4 knows it
        assert [demux(data).keys for data in files] == [[0]] * len(files)


@for_decord
def test_a_file_holds_the_slice_in_decode_order_with_plain_times(film: Film, video_of: VideoOf) -> None:
    piece = read_slice(video_of(film), [14, 3, 20])
    file = mux_slice(piece)
    found = demux(file.data)
    packets = [number for number, _ in piece.packets()]
    assert len(found.sizes) == len(packets)
    pts = np.array(found.pts)
    assert len(set(found.pts)) == len(found.pts)
    assert found.dts == sorted(found.dts)
    steps = np.diff(np.sort(pts))
    if len(steps):
        assert steps.min() == steps.max()
    # Its frame `file.frames[k]`, in the order of presentation, is the k-th wanted one.
    by_time = np.argsort(pts, kind="stable")
    assert [packets[by_time[number]] for number in file.frames] == piece.plan.wanted.tolist()


@pytest.mark.parametrize(
    ("name", "container"),
    [
        ("h264_avi", "mp4"),
        ("h264_ts", "mp4"),
        ("hevc_mkv", "mp4"),
        ("vp9", "mp4"),
        ("av1_webm", "mp4"),
        ("mpeg4_avi", "mp4"),
        ("mjpeg_avi", "mp4"),
        ("vp8", "avi"),
    ],
)
def test_a_file_is_mp4_where_that_holds_the_codec(name: str, container: str, video_of: VideoOf) -> None:
    file = mux_slice(read_slice(video_of(name), [5, 9]))
    assert file.container == container
    assert container in demux(file.data).container


@pytest.mark.parametrize(
    ("name", "number"),
    [
        *[("h264_bframes", 1), ("vp9", 1), ("av1", 1), ("vp8", 1), ("mjpeg_avi", 1)],
        *[("h264_open_gop", 3), ("hevc", 3), ("hevc_open_gop", 3), ("mpeg4", 3)],
    ],
)
def test_runs_share_a_file_only_where_a_keyframe_makes_the_decoder_forget(
    name: str, number: int, video_of: VideoOf, files: list[bytes]
) -> None:
    video, frames = video_of(name), [1, 29, 57]
    assert len(read_slice(video, frames).plan.runs) == 3
    decode_by_decord(video, frames)
    assert len(files) == number


def test_every_file_starts_at_a_keyframe_of_the_film(video_of: VideoOf, files: list[bytes]) -> None:
    video = video_of("h264_open_gop")
    decode_by_decord(video, [1, 13, 29, 57])
    key_sizes = set(video.packet_size[video.packet_flags & KEY != 0].tolist())
    assert all(demux(data).sizes[0] in key_sizes for data in files)
