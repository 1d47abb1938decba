"""The header kept for every video: a container of its stream, without the film.

libavformat sets up a muxer or a decoder from a stream, not from loose facts; a header of less than a kilobyte (plus
the codec's own configuration) is such a stream at hand.
"""

from __future__ import annotations

import io
from fractions import Fraction

import av
from av.container import InputContainer
from av.error import FFmpegError
from av.video.stream import VideoStream

from vidload.errors import UnreadableVideoError

__all__ = ["MAX_HEADER", "make_header", "open_header"]

MAX_HEADER = 1 << 24
"""Bytes that the header of a stream may take in an index: a film's configuration is a few hundred as a rule."""

# mp4 first, as all that reads slices reads it. Byte streams stay byte streams only in NUT.
_FORMATS = ("mp4", "mov", "matroska", "nut")
# Most demuxers open no file without packets; this one is never decoded. VP9's muxers look into packets and want a
# frame: this one shows frame 0 again.
_STUB_PACKETS = {"vp9": b"\x88"}
_STUB_PACKET = b"\0"


def open_header(header: bytes) -> InputContainer:
    """Open a header; the facts of its only stream set up a muxer or a decoder.

    Raises:
        UnreadableVideoError: If the bytes are no header.
    """
    try:
        return av.open(io.BytesIO(header), "r")
    except FFmpegError as error:
        raise UnreadableVideoError(
            f"the stream header kept in the index can't be read ({error}); build the index again with `vidload index`"
        ) from error


def make_header(path: str, stream: VideoStream) -> bytes:
    """Header of a stream, in the first container that keeps codec, configuration and size.

    Args:
        path: The stream's file, for the error's message.
        stream: The stream.

    Raises:
        UnreadableVideoError: If no container does, or it takes more than `MAX_HEADER`.
    """
    wanted = stream.codec_context
    for name in _FORMATS:
        header = _write(stream, name)
        if not header:
            continue
        if len(header) > MAX_HEADER:
            raise UnreadableVideoError(f"{path}: its codec's configuration is larger than {MAX_HEADER:,} bytes")
        with open_header(header) as container:
            kept = container.streams.video[0].codec_context
            if (kept.codec.canonical_name, kept.extradata or b"", kept.width, kept.height) == (
                wanted.codec.canonical_name,
                wanted.extradata or b"",
                wanted.width,
                wanted.height,
            ):
                return header
    raise UnreadableVideoError(f"{path}: no container keeps its stream of codec {wanted.codec.canonical_name}")


def _write(stream: VideoStream, name: str) -> bytes:
    target = io.BytesIO()
    try:
        with av.open(target, "w", format=name, options={"fflags": "+bitexact"}) as container:
            copy = container.add_stream_from_template(stream, opaque=True)
            copy.set_display_rotation(0)  # turning is vidload's own work, the same behind every backend
            packet = av.Packet(_STUB_PACKETS.get(stream.codec_context.codec.canonical_name, _STUB_PACKET))
            packet.pts = packet.dts = 0
            packet.time_base = Fraction(1, 25)
            packet.is_keyframe = True
            packet.stream = copy
            container.mux(packet)
    except (FFmpegError, ValueError):
        return b""  # this container doesn't take the codec
    return target.getvalue()
