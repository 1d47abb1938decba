"""All packets of a stream, as arrays."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from av.container import InputContainer
from av.video.stream import VideoStream

from vidload.errors import NoVideoStreamError
from vidload.index.bitstream import gives_no_frame, packet_role
from vidload.index.video import DISCARD, DISPOSABLE, HIDDEN, KEY, IntArray

__all__ = ["NO_TIMESTAMP", "Packets", "read_packets"]

NO_TIMESTAMP = int(np.iinfo(np.int64).min)
"""Stands for a timestamp that the container doesn't state."""

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

    def set_frames(self, frame_packets: IntArray, fps: float, time_base: Fraction | None, *, trust: bool) -> None:
        """Take the frames as found by decoding: give each a time that never goes backward, and mark all other packets.

        Packets without a frame get their keyframe's time, so that they aren't taken for leading pictures.
        """
        if trust:
            times = np.maximum.accumulate(self.pts[frame_packets])
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


def read_packets(path: str, container: InputContainer, stream: VideoStream) -> Packets:
    """Demux a stream to its end.

    Raises:
        NoVideoStreamError: If it has no packet.
    """
    codec = stream.codec_context.codec.canonical_name
    role = packet_role(codec, stream.codec_context.extradata)
    rows: list[tuple[int, int, int, int, int, int]] = []
    layers: list[int] = []
    stated, exact = True, True
    with open(path, "rb", buffering=0) as file:
        for packet in container.demux(stream):
            size = packet.size
            if size == 0:
                continue
            data = bytes(packet)
            flags = KEY if packet.is_keyframe else 0
            if packet.is_discard:
                flags |= DISCARD
            layer = -1
            if role is not None:
                found = role(data)
                layers.append(found.layer)
                layer = -1 if found.reference else found.layer
            elif packet.is_disposable:
                layer = 0
            pos = packet.pos if packet.pos is not None else -1
            if exact:
                at = _find_payload(file.fileno(), pos, data) if pos >= 0 else -1
                exact = at >= 0
                pos = at if exact else pos
            pts = packet.pts
            if pts is None:
                stated, pts = False, NO_TIMESTAMP
            dts = packet.dts if packet.dts is not None else NO_TIMESTAMP
            if gives_no_frame(codec, data):
                flags |= HIDDEN
            rows.append((pts, dts, pos, size, flags | (layer + 1) << 4, packet.duration or 0))
    if not rows:
        raise NoVideoStreamError(f"{path}: its video stream holds no packet")
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    flags_and_layers = columns[4]
    # Only a picture of the highest sub-layer is referred to by nobody.
    disposable = flags_and_layers >> 4 == (max(layers) if layers else 0) + 1
    flags_only = flags_and_layers & 15
    return Packets(
        pts=columns[0].astype(np.int64),
        dts=columns[1].astype(np.int64),
        pos=columns[2].astype(np.int64),
        size=columns[3].astype(np.int32),
        flags=(flags_only | np.where(disposable & (flags_only & KEY == 0), DISPOSABLE, 0)).astype(np.uint8),
        duration=columns[5].astype(np.int64),
        pts_stated=stated,
        offsets_exact=exact,
    )


def _find_payload(descriptor: int, pos: int, data: bytes) -> int:
    """Byte offset at which the file holds exactly `data`, looked for from `pos` on; -1 if it doesn't."""
    window = os.pread(descriptor, len(data) + _MAX_BLOCK_HEADER, pos)
    if window.startswith(data):
        return pos
    at = window.find(data)
    return pos + at if at >= 0 else -1
