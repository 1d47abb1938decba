"""Opening a film's file with libavformat: one local file, of a known container, and nothing that it names.

Films come from anywhere. A playlist (HLS, DASH, ffconcat) is opened by libavformat like any film and then opens what it
names, other files or addresses; only containers that hold their film themselves are let in, and the only protocol is
``file``. See docs/security.md.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import av
from av.container import InputContainer
from av.error import FFmpegError
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.stream import VideoStream

from vidload.errors import UnreadableVideoError

__all__ = ["MAX_CODED_PIXELS", "demuxed", "limited_context", "open_container", "video_stream"]

MAX_CODED_PIXELS = 16384 * 16384
"""Largest picture for which libavcodec takes memory while a film is indexed, in pixels: its option ``max_pixels``."""

# libavformat's names of demuxers; of matroska,webm and mov,mp4,… one name is enough. Left out on purpose: hls, dash,
# concat, imf, image2, mlv, vobsub, sdp, rtsp and the like, which open other files or addresses; and tty, which draws
# text files.
_CONTAINERS = [
    "amv",
    "apng",
    "asf",
    "av1",
    "avi",
    "cavsvideo",
    "dirac",
    "dnxhd",
    "dv",
    "evc",
    "flv",
    "gif",
    "gxf",
    "h261",
    "h263",
    "h264",
    "hevc",
    "ivf",
    "live_flv",
    "lxf",
    "m4v",
    "matroska",
    "mjpeg",
    "mov",
    "mpeg",
    "mpegts",
    "mpegvideo",
    "mxf",
    "nsv",
    "nut",
    "obu",
    "ogg",
    "rm",
    "smjpeg",
    "swf",
    "vc1",
    "vvc",
    "webp_pipe",
    "wtv",
    "yuv4mpegpipe",
]

_PLAYLISTS = {
    b"#EXTM3U": "an HLS playlist",
    b"ffconcat": "a list of files for FFmpeg's concat",
    b"<MPD": "a DASH manifest",
    b"v=0": "an SDP description of a stream",
}


@contextmanager
def open_container(path: str) -> Iterator[InputContainer]:
    """Open a file (never an address) with libavformat, for the length of a with block.

    Raises:
        UnreadableVideoError: If it can't be opened, isn't a container that holds its film itself, or reading it fails
            in the block.
    """
    options = {
        "protocol_whitelist": "file",
        "format_whitelist": ",".join(_CONTAINERS),
        "max_pixels": str(MAX_CODED_PIXELS),
    }
    try:
        with av.open(f"file:{path}", "r", options=options, metadata_errors="replace") as container:
            yield container
    except FFmpegError as error:
        reason = _playlist(path) or error.strerror or str(error)
        if error.errno == errno.EINVAL:  # so libavformat says of one that isn't let in
            reason = _playlist(path) or "it is in no container of films that vidload reads (see docs/security.md)"
        raise UnreadableVideoError(f"{path}: can't be read as a video: {reason}") from error


def limited_context(stream: VideoStream) -> VideoCodecContext:
    """A stream's codec context, which isn't open yet, told how large a picture may be."""
    context = stream.codec_context
    context.options = {"max_pixels": str(MAX_CODED_PIXELS)}
    return context


def video_stream(container: InputContainer, index: int) -> VideoStream:
    """The video stream of a number in the file, which is to be there."""
    return next(stream for stream in container.streams.video if stream.index == index)


def demuxed(path: str, container: InputContainer, stream: VideoStream) -> Iterator[Packet[VideoStream]]:
    """All packets of a stream, as libavformat finds them.

    Raises:
        UnreadableVideoError: If PyAV itself fails on what it finds, such as a stream that appears in mid-file.
    """
    try:
        yield from container.demux(stream)
    except (IndexError, ValueError, OverflowError, UnicodeError, AttributeError) as error:
        if isinstance(error, FFmpegError):
            raise
        raise UnreadableVideoError(f"{path}: can't be read as a video: {type(error).__name__}: {error}") from error


def _playlist(path: str) -> str | None:
    """What a file that names others is, so that the error can say it; None if it is none that is known."""
    try:
        with open(path, "rb") as file:
            head = file.read(1024).lstrip(b"\xef\xbb\xbf \t\r\n")
    except OSError:
        return None
    for mark, kind in _PLAYLISTS.items():
        if head.startswith(mark) or (mark.startswith(b"<") and mark in head):
            return f"it is {kind}, which names other files; give those files themselves"
    return None
