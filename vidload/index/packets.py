"""All packets of a stream, as arrays."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from av.container import InputContainer
from av.video.stream import VideoStream

from vidload.errors import NoVideoStreamError, UnreadableVideoError
from vidload.index.bitstream import gives_no_frame, packet_role, refers_to_none
from vidload.index.h264 import Picture, picture_reader
from vidload.index.opening import demuxed
from vidload.index.video import BROKEN, DISCARD, DISPOSABLE, HIDDEN, KEY, REFRESH, IntArray

__all__ = ["MAX_PACKETS", "NO_TIMESTAMP", "Packets", "read_packets"]

NO_TIMESTAMP = int(np.iinfo(np.int64).min)
"""Stands for a timestamp that the container doesn't state."""

MAX_PACKETS = 1 << 23
"""Packets a film may have: 38 hours at 60 frames a second. A file that goes on and on must not take all memory."""

# A block of Matroska or a chunk of AVI puts its own header before a packet's bytes; 64 covers any but a laced block's.
_MAX_BLOCK_HEADER = 64


@dataclass
class Packets:
    """All packets of a stream in decode order; an array per fact."""

    pts: IntArray
    dts: IntArray
    pos: IntArray
    size: IntArray
    flags: IntArray
    duration: IntArray
    crc32: IntArray
    pts_stated: bool
    offsets_exact: bool

    @property
    def count(self) -> int:
        """How many packets there are."""
        return len(self.pts)

    def shown(self) -> IntArray:
        """Packets that give a frame, in the order of presentation."""
        shown = np.flatnonzero(self.flags & (DISCARD | HIDDEN) == 0)
        return shown[np.argsort(self.pts[shown], kind="stable")].astype(np.int32)

    def not_keyframes(self, packets: IntArray) -> None:
        """Take back that decoding can start with some packets."""
        self.flags[packets] &= 255 - KEY

    def set_frames(self, frame_packets: IntArray, fps: float, time_base: Fraction | None, *, trust: bool) -> None:
        """Take the frames as found by decoding: give each a time that never goes backward, and mark all other packets.

        A clock that begins anew in mid-film (files put one behind the other) goes on from where it was; a single time
        that is too early stands still.

        Packets without a frame get their keyframe's time, so that they aren't taken for leading pictures.
        """
        stated = self.pts[frame_packets]
        if trust and np.any(np.diff(stated) < 0) and np.all(np.diff(self.pts[np.sort(frame_packets)]) > 0):
            times = np.sort(stated)  # they are when packets are decoded, in truth
        elif trust:
            times = _forward(stated)
        else:
            ticks = 1 / (fps or 25.0) / float(time_base or Fraction(1, 90000))
            times = np.round(np.arange(len(frame_packets)) * ticks).astype(np.int64)
        pts = np.full(self.count, NO_TIMESTAMP)
        pts[frame_packets] = times
        key_time = int(times[0]) if len(times) else 0
        for packet in np.flatnonzero((pts == NO_TIMESTAMP) | (self.flags & KEY != 0)):
            if self.flags[packet] & KEY and pts[packet] != NO_TIMESTAMP:
                key_time = int(pts[packet])
            else:
                pts[packet] = key_time
        self.pts = pts
        silent = np.ones(self.count, bool)
        silent[frame_packets] = False
        self.flags = np.where(silent & (self.flags & DISCARD == 0), self.flags | HIDDEN, self.flags).astype(np.uint8)


def read_packets(path: str, container: InputContainer, stream: VideoStream, *, checksums: bool = False) -> Packets:
    """Demux a stream to its end.

    Raises:
        NoVideoStreamError: If it has no packet.
        UnreadableVideoError: If it has more than `MAX_PACKETS`.
    """
    codec, extradata = stream.codec_context.codec.canonical_name, stream.codec_context.extradata
    role = packet_role(codec, extradata)
    rows: list[tuple[int, int, int, int, int, int]] = []
    layers: list[int] = []
    sums: list[int] = []
    pictures: list[Picture | None] | None = [] if codec == "h264" else None
    read_picture = picture_reader(extradata)
    payloads: list[int] = []  # where packets' bytes begin in the file, as long as that is known
    stated, exact, cut_short = True, True, False
    with open(path, "rb", buffering=0) as file:
        for packet in demuxed(path, container, stream):
            size = packet.size
            if size == 0:
                continue
            if len(rows) == MAX_PACKETS:
                raise UnreadableVideoError(f"{path}: has more than {MAX_PACKETS:,} packets; cut it into several files")
            data = bytes(packet)
            if checksums:
                sums.append(zlib.crc32(data))
            flags = KEY if packet.is_keyframe else 0
            if packet.is_discard:
                flags |= DISCARD
            cut_short = packet.is_corrupt
            layer = -1
            if role is not None:
                found = role(data)
                layers.append(found.layer)
                layer = -1 if found.reference else found.layer
            elif packet.is_disposable:
                layer = 0
            pos = packet.pos if packet.pos is not None else -1
            if exact:
                payloads.append(_find_payload(file.fileno(), pos, data) if pos >= 0 else -1)
                exact = payloads[-1] >= 0
            pts = packet.pts
            if pts is None:
                stated, pts = False, NO_TIMESTAMP
            dts = packet.dts if packet.dts is not None else NO_TIMESTAMP
            if gives_no_frame(codec, data):
                flags |= HIDDEN
            if pictures is not None:
                picture = read_picture(data)
                pictures.append(picture)
                if flags & KEY and picture is not None and not picture.resets:
                    flags = _checked_keyframe(flags, picture)
            elif flags & KEY and refers_to_none(codec, extradata, data) is False:
                flags &= ~KEY
            rows.append((pts, dts, pos, size, flags | (layer + 1) << 8, packet.duration or 0))
    if rows and cut_short:  # the last one; within a transport stream, the flag may only say that files were joined
        rows[-1] = (*rows[-1][:4], rows[-1][4] | BROKEN, rows[-1][5])
    if not rows:
        raise NoVideoStreamError(f"{path}: its video stream holds no packet")
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    flags_and_layers = columns[4]
    # Only a picture of the highest sub-layer is referred to by nobody.
    disposable = flags_and_layers >> 8 == (max(layers) if layers else 0) + 1
    flags_only = flags_and_layers & 255
    if pictures is not None:
        flags_only = flags_only | np.where(_after_gaps(pictures, flags_only & KEY != 0, columns[0]), BROKEN, 0)
    return Packets(
        pts=columns[0].astype(np.int64),
        dts=columns[1].astype(np.int64),
        pos=np.array(payloads, np.int64) if exact else columns[2].astype(np.int64),
        size=columns[3].astype(np.int32),
        flags=(flags_only | np.where(disposable & (flags_only & KEY == 0), DISPOSABLE, 0)).astype(np.uint8),
        duration=columns[5].astype(np.int64),
        crc32=np.array(sums, np.uint32),
        pts_stated=stated,
        offsets_exact=exact,
    )


def _forward(times: IntArray) -> IntArray:
    """Times in the order of frames, made to go forward."""
    steps = np.diff(times)
    if not np.any(steps < 0):
        return times
    usual = int(np.median(steps[steps > 0])) if np.any(steps > 0) else 0
    offset, last, forward = 0, int(times[0]), []
    for number, time in enumerate(times.tolist()):
        if time + offset < last:
            following = int(times[min(number + 1, len(times) - 1)])
            begins_anew = max(time, following) + offset < last
            offset += last + usual - time - offset if begins_anew else 0
        last = max(last, time + offset)
        forward.append(last)
    return np.array(forward, np.int64)


def _checked_keyframe(flags: int, picture: Picture) -> int:
    """Flags of a packet that its container calls a keyframe, if it may be believed."""
    if picture.recovery or (picture.recovery is not None and not picture.intra):
        return flags | REFRESH
    return flags if picture.intra else flags & ~KEY


def _after_gaps(
    pictures: Sequence[Picture | None], keys: npt.NDArray[np.bool_], pts: IntArray
) -> npt.NDArray[np.bool_]:
    """bool[packets], those that may refer to a picture that is missing: from a gap up to the next keyframe.

    Where the gap is before a keyframe, only its leading pictures refer to what is missing.
    """
    broken = np.zeros(len(pictures), bool)
    before: Picture | None = None
    since_gap, leading_only, key_pts = False, False, 0
    for number, picture in enumerate(pictures):
        if picture is None:
            before, since_gap = None, False  # nothing is known
            continue
        gap = before is not None and not picture.follows(before)
        if keys[number]:
            since_gap = leading_only = gap
            key_pts = int(pts[number])
        else:
            if gap:
                since_gap, leading_only = True, False
            broken[number] = since_gap and (not leading_only or int(pts[number]) < key_pts)
        if picture.reference:
            before = picture
    return broken


def _find_payload(descriptor: int, pos: int, data: bytes) -> int:
    """Byte offset at which the file holds exactly `data`, looked for from `pos` on; -1 if it doesn't."""
    window = os.pread(descriptor, len(data) + _MAX_BLOCK_HEADER, pos)
    if window.startswith(data):
        return pos
    at = window.find(data)
    return pos + at if at >= 0 else -1
