"""What really comes out of a stream, found by decoding it."""

from __future__ import annotations

import contextlib
from typing import Literal, NamedTuple, cast

import numpy as np
from av.buffer import Buffer
from av.container import InputContainer
from av.error import FFmpegError
from av.video.frame import PictureType, VideoFrame
from av.video.stream import VideoStream

from vidload.errors import NoVideoStreamError, UnreadableVideoError
from vidload.index.opening import demuxed, limited_context, open_container, video_stream
from vidload.index.video import IntArray

__all__ = ["FirstFrame", "Rotation", "first_frame", "frames_that_come_out"]


class Rotation(NamedTuple):
    """How a picture is turned for showing: mirrored left to right first, then turned clockwise.

    Attributes:
        degrees: 0, 90, 180 or 270.
        mirrored: Whether it is mirrored.
    """

    degrees: Literal[0, 90, 180, 270]
    mirrored: bool


class FirstFrame(NamedTuple):
    """What the first frame says; containers are wrong about sizes at times.

    Attributes:
        rotation: How it is turned.
        pix_fmt: libavutil's name of its pixel format.
        width: Columns.
        height: Rows.
    """

    rotation: Rotation
    pix_fmt: str
    width: int
    height: int


def first_frame(path: str, container: InputContainer, stream: VideoStream) -> FirstFrame:
    """The first frame that decodes.

    Raises:
        NoVideoStreamError: If none does.
    """
    context = limited_context(stream)
    last_error: FFmpegError | None = None
    for packet in demuxed(path, container, stream):
        try:
            frames = context.decode(packet)
        except FFmpegError as error:
            last_error = error
            continue
        if frames:
            return FirstFrame(_rotation(frames[0]), frames[0].format.name, frames[0].width, frames[0].height)
    reason = f": {last_error.strerror}" if last_error else ""
    raise NoVideoStreamError(f"{path}: not one frame of its video stream can be decoded{reason}")


def _rotation(frame: VideoFrame) -> Rotation:
    """Rotation from a display matrix (ISO/IEC 14496-12, 8.2.2): x' = a·x + c·y, y' = b·x + d·y in 16.16 numbers."""
    side_data = frame.side_data.get("DISPLAYMATRIX")
    if side_data is None:
        return Rotation(0, False)
    a, b, _, c, d = np.sign(np.frombuffer(memoryview(cast("Buffer", side_data)), np.int32)[:5]).tolist()
    mirrored = a * d - b * c < 0
    if mirrored:  # the columns of the matrix with the mirroring taken out
        a, b = -a, -b
    degrees = {(1, 0): 0, (0, 1): 90, (-1, 0): 180, (0, -1): 270}.get((a, b), 0)
    return Rotation(cast("Literal[0, 90, 180, 270]", degrees), mirrored)


def frames_that_come_out(path: str, stream: VideoStream, num_packets: int, first: int) -> tuple[IntArray, IntArray]:
    """The packet of every frame that the decoder gives, in the order given, by decoding the whole stream.

    Damaged frames are left out up to the first clean one (they refer to frames before the film's start); later ones
    stay in, so that asking for them is an error and not another frame.

    Args:
        path: The file, to read it from its start.
        stream: The stream in an opened container of that file.
        num_packets: How many packets the stream has.
        first: Packet to start at, the first keyframe: some decoders (MPEG-4's) give frames before it, but grey ones.

    Returns:
        int32[frames], packet numbers in the order in which frames come out; and int64[N], those of frames that refer to
        others, by the decoder.

    Raises:
        UnreadableVideoError: If the file holds another number of packets than before, or a frame can't be traced.
    """
    order: list[int] = []
    referring: list[int] = []
    clean_seen = False

    def take(frames: list[VideoFrame]) -> None:
        nonlocal clean_seen
        for frame in frames:
            if frame.pts is None or not 0 <= frame.pts < num_packets:
                raise UnreadableVideoError(f"{path}: a decoded frame can't be traced to its packet")
            clean_seen = clean_seen or not frame.is_corrupt
            if clean_seen:
                order.append(frame.pts)
            if frame.pict_type in (PictureType.P, PictureType.B):
                referring.append(frame.pts)

    with open_container(path) as container:
        video = video_stream(container, stream.index)
        context = limited_context(video)
        number = 0
        for packet in demuxed(path, container, video):
            if packet.size == 0:
                continue
            packet.pts = packet.dts = number  # a frame's pts then is the number of its packet
            number += 1
            if number <= first:
                continue
            try:
                take(context.decode(packet))
            except FFmpegError:
                continue  # this packet gives no frame
        with contextlib.suppress(FFmpegError):
            take(context.decode(None))
    if number != num_packets:
        raise UnreadableVideoError(f"{path}: changed while it was read")
    seen = list(dict.fromkeys(order))  # a packet of two fields is one frame
    return np.array(seen, np.int32), np.array(referring, np.int64)
