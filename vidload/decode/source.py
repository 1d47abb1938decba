"""Reading the packets of a slice: by offset where the index knows them, else by demuxing from the keyframe."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from av.container import InputContainer
from av.error import FFmpegError

from vidload.decode.protocol import Slice, undecoded
from vidload.decode.slice import SlicePlan, plan_slice, spoiled_by
from vidload.errors import StaleIndexError, UnreadableVideoError
from vidload.index.opening import demuxed, open_container, video_stream
from vidload.index.video import BROKEN, IntArray, Video

__all__ = ["read_slice"]

# Bytes between two wanted packets up to which one read over the gap beats two reads; a page cache's usual read-ahead.
_MERGE_GAP = 128 * 1024

_START_OF_IMAGE = b"\xff\xd8"


def read_slice(
    video: Video,
    frames: Sequence[int] | IntArray,
    *,
    drop_disposable: bool = True,
    earlier_keyframes: int = 0,
    check: bool = True,
) -> Slice:
    """Plan the slice for some frames and read its packets from the file.

    Args:
        video: The video, as indexed.
        frames: Frame numbers, in any order, repeats allowed.
        drop_disposable: See `vidload.decode.slice.plan_slice`.
        earlier_keyframes: See `vidload.decode.slice.plan_slice`.
        check: Whether packets whose bytes aren't those that were indexed are an error, where the index has checksums;
            packets that can't be a picture of their codec; and frames that may refer to a packet that is missing.

    Raises:
        ArgumentError: If a frame is outside the video.
        StaleIndexError: If the file isn't the one that was indexed.
        DecodeError: If a frame has no keyframe to start from; or, with `check`, a packet that it needs is damaged.
    """
    plan = plan_slice(video, frames, drop_disposable=drop_disposable, earlier_keyframes=earlier_keyframes)
    if check:
        _check_references(video, frames, plan)
    try:
        descriptor = os.open(video.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise StaleIndexError(
            f"{video.path}: {error.strerror}; it was there when the index was built. Put it back, or run "
            "`vidload index --update`"
        ) from error
    try:
        stat = os.fstat(descriptor)
        if (stat.st_size, stat.st_mtime_ns) != (video.file_size, video.mtime_ns):
            raise _stale(video, "its size or modification time differ")
        if video.offsets_exact:
            data = tuple(tuple(_read(video, descriptor, run)) for run in plan.runs)
        else:
            data = _demux(video, plan.runs)
    finally:
        os.close(descriptor)
    piece = Slice(video, np.asarray(frames, dtype=np.int64), plan, data)
    if check:
        _check_sums(piece)
        if video.codec == "mjpeg":
            _check_pictures(piece)
    return piece


def _check_references(video: Video, frames: Sequence[int] | IntArray, plan: SlicePlan) -> None:
    """Refuse frames that may refer to a packet that isn't in the film."""
    packets = np.concatenate(plan.runs)
    broken = packets[video.packet_flags[packets] & BROKEN != 0].tolist()
    spoiled = spoiled_by(video, plan.wanted, broken)
    if spoiled:
        piece = Slice(video, np.asarray(frames, dtype=np.int64), plan, ())
        raise undecoded(
            piece, "any", spoiled, "its packet is cut short, or one it may refer to is missing from the film"
        )


def _check_sums(piece: Slice) -> None:
    """Refuse packets whose bytes aren't those that were indexed."""
    sums = piece.video.packet_crc32
    if not len(sums):
        return
    wrong = [number for number, payload in piece.packets() if zlib.crc32(payload) != sums[number]]
    spoiled = spoiled_by(piece.video, piece.plan.wanted, wrong)
    if spoiled:
        raise undecoded(
            piece, "any", spoiled, "the film's bytes aren't those that were indexed: it is damaged (checksum)"
        )


def _check_pictures(piece: Slice) -> None:
    """Refuse packets that don't begin like a JPEG picture: decoders make a grey one of them, and say nothing."""
    wrong = [number for number, payload in piece.packets() if not payload.startswith(_START_OF_IMAGE)]
    if wrong:
        raise undecoded(piece, "any", wrong, "isn't a JPEG picture any more: its packet is damaged")


def _stale(video: Video, how: str) -> StaleIndexError:
    return StaleIndexError(f"{video.path}: changed since it was indexed ({how}); run `vidload index --update`")


def _read(video: Video, descriptor: int, packets: IntArray) -> Iterator[bytes]:
    """Read packets by their offsets, neighbours in one read."""
    begins = video.packet_pos[packets]
    ends = begins + video.packet_size[packets]
    gaps = begins[1:] - ends[:-1]
    # Packets may lie in another order than they are decoded in: a step back begins a new read.
    first_of_read = np.concatenate([[0], np.flatnonzero((gaps > _MERGE_GAP) | (gaps < 0)) + 1, [len(packets)]]).tolist()
    for low, high in pairwise(first_of_read):
        begin, length = int(begins[low]), int(ends[high - 1] - begins[low])
        block = os.pread(descriptor, length, begin)
        if len(block) < length:
            raise _stale(video, f"it ends before byte {begin + length}")
        for start, end in zip(begins[low:high].tolist(), ends[low:high].tolist(), strict=True):
            yield block[start - begin : end - begin]


def _demux(video: Video, runs: tuple[IntArray, ...]) -> tuple[tuple[bytes, ...], ...]:
    """Demux the runs: from each one's first packet where the container can go there, else from the film's start."""
    try:
        with open_container(video.path) as container:
            parts = []
            for run in runs:
                part = _from_offset(video, container, run)
                if part is None:
                    part = _from_start(video, run)
                parts.append(part)
            return tuple(parts)
    except UnreadableVideoError as error:
        raise _stale(video, f"reading it fails: {error}") from error


def _from_offset(video: Video, container: InputContainer, run: IntArray) -> tuple[bytes, ...] | None:
    first = int(run[0])
    if video.packet_pos[first] < 0:
        return None
    stream = video_stream(container, video.stream_index)
    try:
        container.seek(int(video.packet_pos[first]), stream=stream, unsupported_byte_offset=True)
    except FFmpegError:
        return None
    return _collect(video, container, run, first)


def _from_start(video: Video, run: IntArray) -> tuple[bytes, ...]:
    with open_container(video.path) as container:
        part = _collect(video, container, run, 0)
    if part is None:
        raise _stale(video, "its packets aren't where they were")
    return part


def _collect(video: Video, container: InputContainer, run: IntArray, number: int) -> tuple[bytes, ...] | None:
    """Packets of a run, demuxing on from packet `number`; None if any isn't, by place and size, the one indexed."""
    wanted = set(run.tolist())
    last = int(run[-1])
    found: list[bytes] = []
    stream = video_stream(container, video.stream_index)
    for packet in demuxed(video.path, container, stream):
        if packet.size == 0:
            continue
        pos = packet.pos if packet.pos is not None else -1
        if packet.size != video.packet_size[number] or pos != video.packet_pos[number]:
            return None
        if number in wanted:
            found.append(bytes(packet))
        if number == last:
            return tuple(found)
        number += 1
    return None
