"""What a video's packets, and the columns of an index, say about how it will load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from vidload.index.format import IndexFile
from vidload.index.video import DISPOSABLE, KEY, IntArray, Video

__all__ = ["IndexTotals", "PacketStatistics", "gop_lengths", "index_totals", "packet_statistics"]

_Key = TypeVar("_Key")

QUANTILES = (0.0, 0.05, 0.5, 0.95, 1.0)
"""Shares of videos that lie at or below the numbers of `IndexTotals.duration` and its like."""


@dataclass(frozen=True)
class PacketStatistics:
    """How packets depend on each other.

    Attributes:
        gop_shortest: Packets from one keyframe to the next, in the shortest group.
        gop_median: The same in the middle one.
        gop_longest: The same in the longest one.
        disposable_share: Share of packets that no other frame refers to, 0 to 1.
    """

    gop_shortest: int
    gop_median: float
    gop_longest: int
    disposable_share: float


def gop_lengths(video: Video) -> IntArray:
    """int64[groups], packets from each keyframe to the next; one group of all where there is no keyframe."""
    keys = np.flatnonzero(video.packet_flags & KEY)
    starts = keys if len(keys) else np.zeros(1, np.int64)
    return np.diff(starts, append=len(video.packet_flags))


def packet_statistics(videos: Iterable[Video]) -> PacketStatistics:
    """Statistics over all packets of at least one video."""
    lengths, packets, disposable = [], 0, 0
    for video in videos:
        lengths.append(gop_lengths(video))
        packets += len(video.packet_flags)
        disposable += int(np.count_nonzero(video.packet_flags & DISPOSABLE))
    gops = np.concatenate(lengths)
    return PacketStatistics(int(gops.min()), float(np.median(gops)), int(gops.max()), disposable / max(packets, 1))


@dataclass(frozen=True)
class IndexTotals:
    """An index in numbers, all from its columns.

    Attributes:
        videos: Rows.
        frames: Of all videos.
        packets: Of all videos.
        seconds: Of all videos.
        file_bytes: Of all video files; one that has several rows counts several times.
        constant_fps: Videos whose frames all last equally long.
        offsets_exact: Videos whose packets can be read by their place in the file.
        unlabelled: Videos without a label.
        codecs: Videos by codec, the most frequent first.
        sizes: Videos by (width, height) as shown, the most frequent first.
        duration: Seconds at `QUANTILES`.
        num_frames: Frames at `QUANTILES`.
        fps: Frames per second at `QUANTILES`.
    """

    videos: int
    frames: int
    packets: int
    seconds: float
    file_bytes: int
    constant_fps: int
    offsets_exact: int
    unlabelled: int
    codecs: Mapping[str, int]
    sizes: Mapping[tuple[int, int], int]
    duration: tuple[float, ...]
    num_frames: tuple[float, ...]
    fps: tuple[float, ...]


def index_totals(file: IndexFile) -> IndexTotals:
    """Sum up an index of at least one video."""
    try:
        file.batch["codec"].validate(full=True)
    except pa.ArrowException as error:
        raise file.damaged(f" ({error})") from None
    codecs = {item["values"]: item["counts"] for item in pc.value_counts(file.batch["codec"]).to_pylist()}
    turned = np.isin(file.numbers("rotation"), (90, 270))
    width, height = file.numbers("width"), file.numbers("height")
    shown = np.stack([np.where(turned, height, width), np.where(turned, width, height)], axis=1)
    sizes, counts = np.unique(shown, axis=0, return_counts=True)
    return IndexTotals(
        videos=file.batch.num_rows,
        frames=int(file.numbers("num_frames").sum()),
        packets=len(file.batch["packets"].values),
        seconds=float(file.numbers("duration").sum()),
        file_bytes=int(file.numbers("file_size").sum()),
        constant_fps=int(file.numbers("constant_fps").sum()),
        offsets_exact=int(file.numbers("offsets_exact").sum()),
        unlabelled=int(np.count_nonzero(file.numbers("label") == -1)),
        codecs=_by_count(codecs),
        sizes=_by_count({(int(w), int(h)): int(n) for (w, h), n in zip(sizes, counts, strict=True)}),
        duration=_quantiles(file.numbers("duration")),
        num_frames=_quantiles(file.numbers("num_frames")),
        fps=_quantiles(file.numbers("fps")),
    )


def _by_count(counts: Mapping[_Key, int]) -> dict[_Key, int]:
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def _quantiles(column: npt.NDArray[Any]) -> tuple[float, ...]:
    return tuple(np.quantile(column, QUANTILES, method="nearest").tolist())
