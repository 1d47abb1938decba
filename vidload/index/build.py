"""Building an index: find the videos, demux what isn't known yet, write everything in one go."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from vidload.errors import ArgumentError, StrictIndexError, UnreadableVideoError
from vidload.index.format import FACTS, IndexFile, looks_like_index, write_index
from vidload.index.pool import demux_all
from vidload.index.processes import TIMEOUT
from vidload.index.progress import show_progress
from vidload.index.reader import VideoIndex
from vidload.index.rows import offsets_of
from vidload.index.sources import LabelFrom, resolve_sources
from vidload.index.spool import RowSpool
from vidload.index.worker import Request

__all__ = ["BuildReport", "OnSkip", "build_index", "build_with_report"]

OnSkip = Callable[[str, UnreadableVideoError], None]
"""Is told each file that can't be read, and why; the error's message names the file too."""

_REASONS_SHOWN = 10


@dataclass(frozen=True)
class BuildReport:
    """What building an index came to; files are counted once, however many rows they have.

    Attributes:
        index: The index, opened.
        read: Files that were demuxed.
        reused: Files whose facts were taken from the index that was there before.
        skipped: Files that can't be read, and why.
    """

    index: VideoIndex
    read: int
    reused: int
    skipped: Mapping[str, UnreadableVideoError]


def build_index(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    label_from: LabelFrom = "none",
    update: bool = False,
    strict: bool = False,
    stream: int | None = None,
    checksums: bool = False,
    file_timeout: float = TIMEOUT,
    num_workers: int | None = None,
    progress: bool = False,
    on_skip: OnSkip | None = None,
) -> VideoIndex:
    """Demux videos once and write what is known of them to an index file.

    A file that can't be read is skipped. The index appears under its name when it is whole, or not at all.

    Args:
        sources: Video files, folders, globs, and lists (CSV, JSON Lines, Parquet) with a column ``path``; one or many.
            See `vidload.index.sources.resolve_sources`.
        out: The index file. Videos below its folder are stored by relative path, so that both can be moved together.
        label_from: ``"folder"`` labels videos with the name of the first subfolder below the folder given.
        update: Keep what the index at `out` knows of files of unchanged size and modification time, and read only the
            others. The result is the same as without.
        strict: Write nothing if any file can't be read.
        stream: Number of the stream to take of each file; by default the one that libavformat ranks best among those
            that are no cover picture. A file in which it is no video stream can't be read.
        checksums: Keep a checksum of every packet (4 bytes each), by which loading notices every byte that changed.
        file_timeout: Seconds that a file may take before it counts as one that can't be read; not with 0 processes.
        num_workers: Processes that demux; by default one per core that this process may use. 0 reads in this process,
            which a file that crashes libavformat then takes along.
        progress: Show progress on standard error.
        on_skip: Is called with path and error for each file that can't be read. By default, a warning tells of them.

    Returns:
        The index, opened.

    Raises:
        EmptySourceError: If a source doesn't exist or leads to no video.
        ArgumentError: If a list can't be read, labels are mixed, or `out` can't be written or is some other file.
        UnreadableVideoError: If not one file can be read; nothing is written.
        StrictIndexError: If `strict` and a file can't be read; nothing is written.
        IndexFormatError: If `update` and the file at `out` is damaged or of another format version.
        WorkerError: If a process can't be started.
    """
    report = build_with_report(
        sources,
        out,
        label_from=label_from,
        update=update,
        strict=strict,
        stream=stream,
        checksums=checksums,
        file_timeout=file_timeout,
        num_workers=num_workers,
        progress=progress,
        on_skip=on_skip,
    )
    if report.skipped and on_skip is None:
        warnings.warn(
            f"{len(report.skipped)} files were left out of {report.index.path}:{_reasons(report.skipped)}", stacklevel=2
        )
    return report.index


def build_with_report(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    label_from: LabelFrom = "none",
    update: bool = False,
    strict: bool = False,
    stream: int | None = None,
    checksums: bool = False,
    file_timeout: float = TIMEOUT,
    num_workers: int | None = None,
    progress: bool = False,
    on_skip: OnSkip | None = None,
) -> BuildReport:
    """As `build_index`, but tells what was read, reused and skipped instead of warning."""
    out = os.path.abspath(os.fspath(out))
    num_workers = _check_workers(num_workers)
    if not file_timeout > 0:
        raise ArgumentError(f"file_timeout={file_timeout!r}: give seconds, above 0")
    _check_out(out)
    rows = resolve_sources(sources, label_from=label_from)
    labels, classes = rows.class_numbers()
    paths = list(dict.fromkeys(rows.paths))
    known = _Known(out if update and os.path.exists(out) else None, paths, stream, checksums)
    unread = [path for path in paths if path not in known.rows]
    requests = [Request(path, stream, checksums) for path in unread]
    skipped: dict[str, UnreadableVideoError] = {}
    kept: list[int] = []
    place: dict[str, int] = {}  # of each file in the spool
    with (
        RowSpool(FACTS, os.path.dirname(out)) as spool,
        closing(demux_all(requests, min(num_workers, len(unread)), timeout=file_timeout)) as outcomes,
        show_progress(len(unread), progress) as advance,
    ):
        for row, path in enumerate(rows.paths):
            if path in place:
                spool.repeat(place[path])
            elif path in known.rows:
                place[path] = spool.append(known.facts(path))
            elif path not in skipped:
                outcome = next(outcomes)
                advance()
                if isinstance(outcome, UnreadableVideoError):
                    skipped[path] = outcome
                    if on_skip is not None:
                        on_skip(path, outcome)
                else:
                    place[path] = spool.append(outcome)
            if path in place:
                kept.append(row)
        _check_read(skipped, len(paths), strict)
        write_index(
            out,
            spool.batch(),
            paths=[rows.paths[row] for row in kept],
            labels=[labels[row] for row in kept],
            classes=classes,
            extra=rows.extra.take(pa.array(kept, pa.int64())),
            stream=stream,
        )
    reused = len(known.rows)
    return BuildReport(VideoIndex(out), len(place) - reused, reused, skipped)


class _Known:
    """What the index that is there knows of files that haven't changed.

    Args:
        path: The index, or None where nothing is known.
        wanted: The files that matter.
        stream: Number of the stream that is wanted of each; None for the best.
        checksums: Whether checksums are wanted.
    """

    def __init__(self, path: str | None, wanted: Iterable[str], stream: int | None, checksums: bool) -> None:
        self.rows: dict[str, int] = {}
        if path is None:
            return
        self._file = IndexFile(path)
        row_of = {self._file.video_path(row): row for row in range(self._file.batch.num_rows)}
        if self._file.choice != stream:
            return
        sizes, times = self._file.numbers("file_size"), self._file.numbers("mtime_ns")
        summed = np.diff(offsets_of(self._file.batch["packet_crc32"])) > 0
        for wish in wanted:
            row = row_of.get(wish, -1)
            if row >= 0 and _identity(wish) == (sizes[row], times[row]) and bool(summed[row]) == checksums:
                self.rows[wish] = row

    def facts(self, path: str) -> pa.RecordBatch:
        """The facts of a file in `rows`."""
        return self._file.facts(self.rows[path])


def _identity(path: str) -> tuple[int, int]:
    """Size and modification time of a file; nothing matches that of a file that is gone."""
    try:
        status = os.stat(path)
    except OSError:
        return -1, -1
    return status.st_size, status.st_mtime_ns


def _check_workers(num_workers: object) -> int:
    if num_workers is None:
        return len(os.sched_getaffinity(0))
    if not isinstance(num_workers, int) or num_workers < 0:
        raise ArgumentError(f"num_workers={num_workers!r}: give a number of processes, 0 to read in this one, or None")
    return num_workers


def _check_out(out: str) -> None:
    if os.path.isdir(out):
        raise ArgumentError(
            f"out={out!r} is a folder; give the name of a file, such as {os.path.join(out, 'videos.index')!r}"
        )
    if os.path.exists(out) and os.path.getsize(out) and not looks_like_index(out):
        raise ArgumentError(f"out={out!r} is a file of another kind and would be overwritten; give another name")
    try:
        os.makedirs(os.path.dirname(out), exist_ok=True)
    except OSError as error:
        raise ArgumentError(f"out={out!r}: its folder can't be made ({error.strerror}); give another one") from None


def _check_read(skipped: Mapping[str, UnreadableVideoError], total: int, strict: bool) -> None:
    if len(skipped) == total:
        raise UnreadableVideoError(f"none of the {total} files can be read, no index is written:{_reasons(skipped)}")
    if skipped and strict:
        raise StrictIndexError(
            f"{len(skipped)} of the {total} files can't be read, no index is written (strict):{_reasons(skipped)}"
        )


def _reasons(skipped: Mapping[str, UnreadableVideoError]) -> str:
    lines = [f"\n  {error}" for error in list(skipped.values())[:_REASONS_SHOWN]]
    if len(skipped) > len(lines):
        lines.append(f"\n  and {len(skipped) - len(lines)} more")
    return "".join(lines)
