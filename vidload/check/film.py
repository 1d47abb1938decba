"""One film, decoded from its first packet to its last."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import av.logging
import numpy as np
from av.error import FFmpegError
from av.video.frame import VideoFrame

from vidload.decode.protocol import make_packet
from vidload.decode.pyav import open_context
from vidload.decode.slice import keyframes_of, spoiled_by
from vidload.errors import UnreadableVideoError
from vidload.index.opening import demuxed, open_container, video_stream
from vidload.index.statistics import gop_lengths
from vidload.index.video import BROKEN, DISCARD, HIDDEN, Video

__all__ = ["Finding", "check_film"]

_LONG_GOP = 300
"""Packets from a keyframe to the next from which on it is told that clips are dear."""
_USUAL_SHARE = 0.9
"""Of frames that last equally long, from which on a film isn't one of variable rate, but one with gaps."""
_SHOWN = 8
_UNSTATED, _RGB = 2, 0  # of AVColorSpace
_FULL = 2  # AVCOL_RANGE_JPEG
_USUAL_MATRICES = frozenset({1, 5, 6})  # BT.709, and BT.601 by two names
_PQ_AND_HLG = frozenset({16, 18})  # of AVColorTransferCharacteristic
# What FFmpeg's decoders of these only log: each slice has a checksum.
_LOGS_DAMAGE = frozenset({"ffv1"})


class Finding(NamedTuple):
    """Something about a film.

    Attributes:
        kind: A word for it: one of ``unreadable``, ``stale``, ``corrupt``, ``changed``, ``size``, ``missing``, which
            are bad (some frame is an error, or gone); or ``count``, ``rate``, ``gap``, ``gop``, ``colour``, ``depth``,
            ``rotation``, ``aspect``, ``interlaced``, ``times``, ``incomplete``,
            ``decoder``.
        bad: Whether a loader would fail, or lack frames that the film should have.
        message: What it is.
    """

    kind: str
    bad: bool
    message: str


@dataclass
class _Seen:
    """What came of decoding."""

    frames: set[int] = field(default_factory=set)
    damaged: list[int] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    other_size: list[int] = field(default_factory=list)
    interlaced: int = 0
    complaints: list[str] = field(default_factory=list)
    incomplete: int = 0
    stated_frames: int = 0
    stated_seconds: float = 0.0


def check_film(video: Video) -> list[Finding]:
    """Decode a film once, and look at what is known of it.

    Meant for a process of its own: FFmpeg's messages are caught, for all threads of it.

    Args:
        video: The film, as indexed.

    Returns:
        What was found, bad things first. Empty for a film that is whole and plain.
    """
    try:
        stat = os.stat(video.path)
    except OSError as error:
        return [Finding("stale", True, f"{error.strerror}; run `vidload index --update`")]
    if (stat.st_size, stat.st_mtime_ns) != (video.file_size, video.mtime_ns):
        return [Finding("stale", True, "changed since it was indexed; run `vidload index --update`")]
    try:
        seen = _decode(video)
    except UnreadableVideoError as error:
        return [Finding("unreadable", True, str(error).removeprefix(f"{video.path}: "))]
    return [*_bad(video, seen), *_notes(video, seen)]


def _decode(video: Video) -> _Seen:
    seen = _Seen()
    context = open_context(video)

    def take(frames: list[VideoFrame]) -> None:
        for frame in frames:
            if frame.pts is None:
                continue
            seen.frames.add(frame.pts)
            seen.interlaced += bool(frame.interlaced_frame)
            if frame.is_corrupt:
                seen.damaged.append(frame.pts)
            elif (frame.width, frame.height) != (video.width, video.height):
                seen.other_size.append(frame.pts)

    av.logging.set_level(av.logging.ERROR)
    for number, data in _packets(video, seen):
        if len(video.packet_crc32) and zlib.crc32(data) != video.packet_crc32[number]:
            seen.changed.append(number)
        packet = make_packet(data)
        packet.pts = packet.dts = number
        with av.logging.Capture() as messages:
            try:
                take(context.decode(packet))
            except FFmpegError:
                seen.damaged.append(number)
        if messages:
            seen.complaints.append(f"packet {number}: {messages[0][2].strip()}")
            if video.codec in _LOGS_DAMAGE:
                seen.damaged.append(number)
    try:
        take(context.decode(None))
    except FFmpegError:
        seen.damaged.append(len(video.packet_pts) - 1)
    return seen


def _packets(video: Video, seen: _Seen) -> Iterator[tuple[int, bytes]]:
    """(number, bytes) of all packets, and into `seen` what the header states."""
    with open_container(video.path) as container:
        stream = video_stream(container, video.stream_index)
        seen.stated_frames = stream.frames
        if stream.duration and stream.time_base:
            seen.stated_seconds = float(stream.duration * stream.time_base)
        number = 0
        for packet in demuxed(video.path, container, stream):
            if packet.size == 0:
                continue
            if number == len(video.packet_pts):
                break
            seen.incomplete += packet.is_corrupt
            yield number, bytes(packet)
            number += 1


def _bad(video: Video, seen: _Seen) -> Iterator[Finding]:
    frame_of = {int(packet): frame for frame, packet in enumerate(video.frame_packets.tolist())}
    if seen.changed:
        spoiled = [frame_of[packet] for packet in spoiled_by(video, video.frame_packets, seen.changed)]
        yield Finding("changed", True, f"{len(seen.changed)} packets changed since they were indexed: {_list(spoiled)}")
    broken = np.flatnonzero(video.packet_flags & BROKEN).tolist()
    spoiled = [frame_of[packet] for packet in spoiled_by(video, video.frame_packets, broken)]
    if spoiled:
        yield Finding("missing", True, f"packets are cut short, or missing that frames refer to: {_list(spoiled)}")
    _, at = keyframes_of(video, video.frame_packets)
    first = np.flatnonzero(at < 0).tolist()
    if first:
        yield Finding("corrupt", True, f"without a keyframe before them: {_list(first)}")
    lost = [packet for packet in frame_of if packet not in seen.frames]
    spoiled = [frame_of[packet] for packet in spoiled_by(video, video.frame_packets, [*seen.damaged, *lost])]
    if spoiled:
        yield Finding("corrupt", True, f"damaged, or referring to what is: {_list(spoiled)}")
    other = [frame_of[packet] for packet in seen.other_size if packet in frame_of]
    if other:
        yield Finding("size", True, f"of another size than {video.width}×{video.height}: {_list(other)}")
    if seen.stated_frames > len(video.packet_pts):
        yield Finding(
            "missing",
            True,
            f"its header promises {seen.stated_frames} frames, but there are {len(video.packet_pts)} packets",
        )
        return
    hidden = np.any(video.packet_flags & (DISCARD | HIDDEN))  # then less is shown than there is
    if not hidden and video.duration < seen.stated_seconds - 1.5 / max(video.fps, 1e-3) - 0.05:
        yield Finding(
            "missing",
            True,
            f"its header promises {seen.stated_seconds:.2f} s of video, but there are {video.duration:.2f} s",
        )


def _notes(video: Video, seen: _Seen) -> Iterator[Finding]:
    if seen.stated_frames and seen.stated_frames != video.num_frames:
        yield Finding("count", False, f"its header counts {seen.stated_frames} frames, {video.num_frames} are shown")
    if not video.constant_fps:
        lengths = np.diff(video.pts())
        usual = float(np.median(lengths))
        jumps = np.flatnonzero(lengths > 1.9 * usual)
        if usual > 0 and len(jumps) and np.mean(np.abs(lengths - usual) <= 0.1 * usual) >= _USUAL_SHARE:
            yield Finding("gap", False, f"times jump, so that packets may be missing: after {_list(jumps.tolist())}")
        else:
            yield Finding("rate", False, f"variable rate: frames last {lengths.min():.4g} to {lengths.max():.4g} s")
    if len(np.unique(video.pts())) < video.num_frames:
        yield Finding("times", False, "several frames have the same time; by time only the last of them is found")
    gops = gop_lengths(video)
    longest = int(gops.max())
    if longest >= _LONG_GOP:
        only = "one keyframe" if len(gops) == 1 else "keyframes far apart"
        yield Finding("gop", False, f"{only}: up to {longest} packets are decoded for a clip; see vidload transcode")
    if video.color_space == _UNSTATED and video.height >= 720:
        yield Finding("colour", False, "states no colour matrix at HD size; BT.601 is taken, as FFmpeg does")
    elif video.color_space not in (_UNSTATED, *_USUAL_MATRICES):
        what = "coded as RGB" if video.color_space == _RGB else f"colour matrix {video.color_space} (ITU-T H.273)"
        yield Finding("colour", False, what)
    if video.color_range == _FULL and video.codec != "mjpeg":
        yield Finding("colour", False, "full range")
    depth = av.VideoFormat(video.pix_fmt).components[0].bits
    if depth > 8:
        hdr = ", HDR transfer: not tone-mapped" if video.color_trc in _PQ_AND_HLG else ""
        yield Finding("depth", False, f"{depth} bits a value{hdr}; dtype='uint16' keeps them")
    if video.rotation or video.mirrored:
        mirrored = "mirrored and " if video.mirrored else ""
        yield Finding("rotation", False, f"{mirrored}turned by {video.rotation} degrees for showing")
    if video.sample_aspect_ratio != 1:
        yield Finding("aspect", False, f"pixels of {video.sample_aspect_ratio}; square_pixels=True corrects that")
    if seen.interlaced:
        yield Finding("interlaced", False, f"{seen.interlaced} frames of two fields; deinterlace=True makes them one")
    if seen.incomplete:
        what = "the container's counters say that something is missing, or was joined, near"
        yield Finding("incomplete", False, f"{what} {seen.incomplete} packets")
    if seen.complaints:
        yield Finding("decoder", False, f"{len(seen.complaints)} complaints, such as {seen.complaints[0]}")


def _list(frames: Sequence[int]) -> str:
    ordered = sorted(frames)
    shown = ", ".join(map(str, ordered[:_SHOWN]))
    more = f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return f"frame{'s' if len(ordered) > 1 else ''} {shown}{more}"
