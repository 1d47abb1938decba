"""The slice: the fewest packets from which the wanted frames can be decoded. Pure arithmetic, no file is touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vidload.errors import ArgumentError, DecodeError
from vidload.index.video import DISPOSABLE, KEY, REFRESH, IntArray, Video

__all__ = ["SlicePlan", "keyframes_of", "plan_slice", "spoiled_by"]


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """Which packets give the wanted frames.

    Attributes:
        runs: int64[…] each, packet numbers in decode order. Every run starts where decoding can start and needs nothing
            of the run before.
        wanted: int64[frames], for every frame asked for, in the order asked, the packet that it comes out of.
    """

    runs: tuple[IntArray, ...]
    wanted: IntArray

    @property
    def num_packets(self) -> int:
        """Packets in all runs."""
        return sum(len(run) for run in self.runs)

    @property
    def num_wanted(self) -> int:
        """Distinct frames wanted."""
        return len(np.unique(self.wanted))

    @property
    def num_dropped(self) -> int:
        """Packets between the first and the last of each run that are left out."""
        return sum(int(run[-1] - run[0]) + 1 - len(run) for run in self.runs)

    @property
    def num_leading(self) -> int:
        """Packets that are decoded before the first wanted frame of their run."""
        return sum(int(np.isin(run, self.wanted).argmax()) for run in self.runs)


def plan_slice(
    video: Video, frames: Sequence[int] | IntArray, *, drop_disposable: bool = True, earlier_keyframes: int = 0
) -> SlicePlan:
    """Plan the slice for some frames of a video.

    From the keyframe that each wanted frame really needs (a leading picture of an open GOP needs the one before) to the
    last wanted frame in decode order; whole GOPs between wanted frames are left out, and so are leading pictures whose
    references are, and disposable packets that aren't wanted themselves.

    Args:
        video: The video.
        frames: Frame numbers, in any order, repeats allowed.
        drop_disposable: Whether packets that no other frame refers to are left out.
        earlier_keyframes: Start every run this many keyframes earlier than the packets say; for streams whose keyframes
            turn out not to be places where decoding can start.

    Raises:
        ArgumentError: If a frame number is outside the video.
        DecodeError: If a frame has no keyframe to start from.
    """
    numbers = np.asarray(frames, dtype=np.int64)
    if numbers.ndim != 1 or not len(numbers):
        raise ArgumentError(f"frames={frames!r}: give a list of at least one frame number")
    outside = (numbers < 0) | (numbers >= video.num_frames)
    if outside.any():
        raise ArgumentError(
            f"{video.path}: frame {int(numbers[outside][0])} is outside the video, which has {video.num_frames} frames"
        )
    wanted = video.frame_packets[numbers].astype(np.int64)
    packets = np.unique(wanted)
    keys, at = keyframes_of(video, packets)
    if at.min() < 0:
        frame = int(numbers[np.flatnonzero(wanted == packets[int(at.argmin())])[0]])
        raise DecodeError(f"{video.path}: frame {frame} has no keyframe before it, so it can't be decoded")
    starts = keys[np.maximum(at - earlier_keyframes, 0)]
    # A leading picture starts before the keyframe it follows: what lies between the two belongs to its run.
    starts = np.minimum.accumulate(starts[::-1])[::-1]
    runs: list[IntArray] = []
    begin, end = int(starts[0]), int(packets[0])
    for start, packet in zip(starts[1:].tolist(), packets[1:].tolist(), strict=True):
        if start > end:
            runs.append(_run(video, begin, end, packets, drop_disposable))
            begin = start
        end = packet
    runs.append(_run(video, begin, end, packets, drop_disposable))
    return SlicePlan(tuple(runs), wanted)


def keyframes_of(video: Video, packets: IntArray) -> tuple[IntArray, IntArray]:
    """Where decoding has to start for each of some packets.

    Args:
        video: The video.
        packets: int64[N], packet numbers.

    Returns:
        int64[keyframes], all packets where decoding can start, and int64[N], which of them each packet needs; -1 for
        packets before the first.
    """
    keys = np.flatnonzero(video.packet_flags & KEY)
    at = np.searchsorted(keys, packets, side="right") - 1
    if not len(keys):
        return keys, at
    # A leading picture is shown before its keyframe, and may refer to what comes before that in decode order.
    leading = (at > 0) & (video.packet_pts[packets] < video.packet_pts[keys[at]])
    at = np.where(leading, at - 1, at)
    # From one of these, pictures are whole only at the next.
    refreshed = (at > 0) & (video.packet_flags[keys[at]] & REFRESH != 0)
    return keys, np.where(refreshed, at - 1, at)


def spoiled_by(video: Video, wanted: IntArray, damaged: Sequence[int]) -> list[int]:
    """Which of some wanted packets are damaged, or may refer to one that is: a decoder marks only that one.

    Args:
        video: The video.
        wanted: int64[N], packet numbers.
        damaged: Numbers of the packets that are damaged.

    Returns:
        Packet numbers, ascending, each once.
    """
    if not damaged:
        return []
    packets = np.unique(wanted)
    keys, at = keyframes_of(video, packets)
    first_needed = keys[np.maximum(at, 0)] if len(keys) else packets
    spoiled = np.isin(packets, damaged)
    for packet in damaged:
        if not video.packet_flags[packet] & DISPOSABLE:
            spoiled |= (first_needed <= packet) & (packet < packets)
    return [int(packet) for packet in packets[spoiled]]


def _run(video: Video, begin: int, end: int, wanted: IntArray, drop_disposable: bool) -> IntArray:
    flags = video.packet_flags[begin : end + 1]
    keep = np.ones(end + 1 - begin, bool)
    if drop_disposable:
        keep &= flags & DISPOSABLE == 0
    # Leading pictures of the keyframe that the run starts at refer to frames before it.
    next_key = np.flatnonzero(flags[1:] & KEY)
    gop = slice(1, int(next_key[0]) + 1 if len(next_key) else end + 1 - begin)
    keep[gop] &= video.packet_pts[begin : end + 1][gop] >= video.packet_pts[begin]
    inside = wanted[(wanted >= begin) & (wanted <= end)]
    keep[inside - begin] = True
    return np.flatnonzero(keep).astype(np.int64) + begin
