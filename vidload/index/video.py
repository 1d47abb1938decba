"""One video as the index knows it: the stream's facts and a few numbers per packet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = ["BROKEN", "DISCARD", "DISPOSABLE", "HIDDEN", "KEY", "REFRESH", "IntArray", "Video"]

IntArray = npt.NDArray[np.integer[Any]]

KEY = 1
"""Packet flag: decoding can start here."""
DISCARD = 2
"""Packet flag: decoded but never shown (hidden by an edit list)."""
DISPOSABLE = 4
"""Packet flag: no other frame refers to this one, so it may be left out where it isn't wanted itself."""
HIDDEN = 8
"""Packet flag: needed for decoding, but no frame comes out of it (an alternate reference frame of VP8, say)."""
BROKEN = 16
"""Packet flag: it is cut short, or a packet that its frame may refer to is missing from the film."""
REFRESH = 32
"""Packet flag, beside `KEY`: frames after it become whole little by little, as what they refer to is refreshed."""


@dataclass(frozen=True, slots=True)
class Video:
    """A video's stream and packets, as found by demuxing the file once.

    Packets are numbered in decode order, frames in the order they are shown; frame ``i`` comes out of packet
    ``frame_packets[i]``. The arrays are read-only views of the mapped index where the video comes from one.

    Attributes:
        path: The file, absolute.
        file_size: Bytes; with `mtime_ns`, how a file that changed since is noticed.
        mtime_ns: Modification time in nanoseconds.
        container: Name of the libavformat demuxer (``"mov,mp4,m4a,3gp,3g2,mj2"``).
        stream_index: Which stream of the file.
        codec: Name of the codec (``"h264"``), not of a decoder.
        codec_tag: Four characters, or empty.
        pix_fmt: libavutil's name of the pixel format (``"yuv420p"``).
        width: Columns of the coded picture, before rotation.
        height: Rows of the coded picture, before rotation.
        rotation: Degrees clockwise (0, 90, 180, 270) by which the picture is turned for showing.
        mirrored: Whether the picture is mirrored left to right, before it is turned.
        sample_aspect_ratio: Width over height of one pixel; 1 where the stream doesn't say.
        color_range: libavutil's AVColorRange number (1 limited, 2 full, 0 not stated).
        color_space: libavutil's AVColorSpace number (the matrix; 2 not stated).
        color_primaries: libavutil's AVColorPrimaries number.
        color_trc: libavutil's AVColorTransferCharacteristic number.
        bits_per_coded_sample: As the container states it; some codecs can't be decoded without.
        time_base: Seconds per tick of `packet_pts`.
        fps: Average frames per second.
        constant_fps: Whether all frames last equally long, within a tick of the time base.
        duration: Seconds from the first frame's start to the last one's end.
        offsets_exact: Whether `packet_pos` and `packet_size` delimit the very bytes of each packet in the file (checked
            when the index was built). Where not, packets have to be demuxed.
        header: A tiny container of the same stream without packets, from which a muxer or a decoder is set up.
        packet_pts: int64[packets], ticks; frames without a timestamp got one when the index was built.
        packet_dts: int64[packets], ticks, as demuxed; the lowest int64 where the container states none.
        packet_pos: int64[packets], byte offset in the file, -1 where unknown.
        packet_size: int32[packets], bytes.
        packet_flags: uint8[packets], of `KEY`, `DISCARD`, `DISPOSABLE`, `HIDDEN`, `BROKEN` and `REFRESH`.
        frame_packets: int32[frames], the packet that each frame comes out of, in the order frames are shown.
        packet_crc32: uint32[packets], CRC-32 of each packet's bytes; empty where the index was built without checksums.
        label: The class number, -1 where there is none.
        extra: Further columns of the list the index was built from.
        id: The row in the index; 0 for a video that comes from none.
    """

    path: str
    file_size: int
    mtime_ns: int
    container: str
    stream_index: int
    codec: str
    codec_tag: str
    pix_fmt: str
    width: int
    height: int
    rotation: Literal[0, 90, 180, 270]
    mirrored: bool
    sample_aspect_ratio: Fraction
    color_range: int
    color_space: int
    color_primaries: int
    color_trc: int
    bits_per_coded_sample: int
    time_base: Fraction
    fps: float
    constant_fps: bool
    duration: float
    offsets_exact: bool
    header: bytes
    packet_pts: IntArray
    packet_dts: IntArray
    packet_pos: IntArray
    packet_size: IntArray
    packet_flags: IntArray
    frame_packets: IntArray
    packet_crc32: IntArray = field(default_factory=lambda: np.empty(0, np.uint32))
    label: int = -1
    extra: Mapping[str, Any] = field(default_factory=dict)
    id: int = 0

    @property
    def num_frames(self) -> int:
        """How many frames are shown."""
        return len(self.frame_packets)

    @property
    def has_hidden(self) -> bool:
        """Whether packets that no frame comes out of lie where clips are decoded: after the first keyframe."""
        return bool(np.any(self.packet_flags[int(np.argmax(self.packet_flags & KEY)) :] & HIDDEN))

    @property
    def display_size(self) -> tuple[int, int]:
        """(width, height) in pixels as shown: after rotation, before any correction of the pixel aspect."""
        return (self.height, self.width) if self.rotation in (90, 270) else (self.width, self.height)

    def pts(self, frames: IntArray | slice = slice(None)) -> npt.NDArray[np.float64]:
        """Presentation times of the given frames (all by default), float64 seconds."""
        ticks = self.packet_pts[self.frame_packets[frames]]
        return ticks.astype(np.float64) * self.time_base.numerator / self.time_base.denominator

    @property
    def forgiveness(self) -> float:
        """Seconds by which a frame's pts may be later than a moment and still count as shown then.

        Half a tick, since containers round pts to ticks (30 fps in milliseconds is 0, 33, 67, 100, ...); at most half a
        millisecond, since where ticks are coarse, as long as a frame perhaps, they are exact.
        """
        return min(float(self.time_base) / 2, 0.0005)

    def frames_at(self, seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """The frames shown at times: the last with pts ≤ each, the first one before all of them.

        By bisection, so that only a few of a long film's timestamps are looked up.

        Args:
            seconds: float64[N], on the scale of `pts`.

        Returns:
            int64[N], frame numbers.
        """
        ticks = (seconds + self.forgiveness) / float(self.time_base)
        low = np.zeros(len(seconds), dtype=np.int64)
        high = np.full(len(seconds), self.num_frames, dtype=np.int64)
        for _ in range(self.num_frames.bit_length()):
            middle = (low + high) // 2
            pts = self.packet_pts[self.frame_packets[np.minimum(middle, self.num_frames - 1)]]
            begun = (pts <= ticks) & (middle < high)
            low, high = np.where(begun, middle + 1, low), np.where(begun, high, middle)
        return np.maximum(low - 1, 0)
