"""Many films, each read once in a process that it may crash."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from vidload.check.film import Finding
from vidload.check.worker import FINDINGS
from vidload.errors import ArgumentError, UnreadableVideoError
from vidload.index.build import build_with_report
from vidload.index.format import looks_like_index
from vidload.index.processes import answers
from vidload.index.progress import show_progress
from vidload.index.reader import VideoIndex
from vidload.index.subset import write_subset

__all__ = ["FILM_TIMEOUT", "FilmReport", "Finding", "check_films"]

FILM_TIMEOUT = 6 * 3600.0
"""Seconds that a film may take by default."""


@dataclass(frozen=True)
class FilmReport:
    """What was found of a film.

    Attributes:
        path: The file.
        num_frames: How many it shows; 0 where it can't be read.
        findings: What would fail or surprise; empty for a film that is whole and plain.
    """

    path: str
    num_frames: int
    findings: tuple[Finding, ...]

    @property
    def bad(self) -> bool:
        """Whether training would fail on it, or lack frames that it should have."""
        return any(finding.bad for finding in self.findings)


def check_films(
    sources: Sequence[str | os.PathLike[str]],
    *,
    exclude_bad: str | os.PathLike[str] | None = None,
    num_workers: int | None = None,
    film_timeout: float = FILM_TIMEOUT,
    progress: bool = False,
) -> list[FilmReport]:
    """Read films to the last frame, and report what would fail or surprise in training.

    Args:
        sources: An index; or what `vidload.build_index` takes.
        exclude_bad: Index to write, with the films that aren't bad.
        num_workers: Processes; by default one per core that this process may use.
        film_timeout: Seconds that a film may take before it counts as one that can't be read.
        progress: Show progress on standard error.

    Returns:
        A report on each film, in the index's or the sources' order; films that can't be read at all come last.

    Raises:
        EmptySourceError: If a source doesn't exist or leads to no video.
        ArgumentError: If an argument can't work, or `exclude_bad` can't be written.
        UnreadableVideoError: If no film is left for `exclude_bad`.
        IndexFormatError: If the index can't be read.
        WorkerError: If a process can't be started.
    """
    workers = len(os.sched_getaffinity(0)) if num_workers is None else num_workers
    if workers < 1:
        raise ArgumentError(f"num_workers={num_workers!r}: give a number of processes, at least 1, or None")
    if not film_timeout > 0:
        raise ArgumentError(f"film_timeout={film_timeout!r}: give seconds, above 0")
    with _indexed(sources, workers, progress) as (path, unread):
        reports = _check_index(path, workers, film_timeout, progress) if path else []
        if exclude_bad is not None:
            good = [row for row, report in enumerate(reports) if not report.bad]
            if not good:
                raise UnreadableVideoError(
                    f"all {len(reports) + len(unread)} films are bad: {exclude_bad} isn't written"
                )
            write_subset(path, good, os.fspath(exclude_bad))
    return [*reports, *unread]


def _check_index(path: str, num_workers: int, film_timeout: float, progress: bool) -> list[FilmReport]:
    with VideoIndex(path) as index:
        requests = ((os.path.abspath(path), row) for row in range(len(index)))
        found = answers("vidload.check.worker", requests, min(num_workers, len(index)), timeout=film_timeout)
        reports = []
        with closing(found), show_progress(len(index), progress) as advance:
            for row, (kind, content) in enumerate(found):
                advance()
                video = index[row]
                reports.append(FilmReport(video.path, video.num_frames, _findings(kind, content)))
        return reports


def _findings(kind: bytes, content: bytes) -> tuple[Finding, ...]:
    if kind == FINDINGS:
        return tuple(Finding(*finding) for finding in json.loads(content))
    return (Finding("unreadable", True, f"the process that decoded it {content.decode()}"),)


@contextmanager
def _indexed(
    sources: Sequence[str | os.PathLike[str]], num_workers: int, progress: bool
) -> Iterator[tuple[str, list[FilmReport]]]:
    """An index of the sources (empty where none can be read), and the films that it lacks."""
    if len(sources) == 1 and looks_like_index(os.fspath(sources[0])):
        yield os.fspath(sources[0]), []
        return
    with tempfile.TemporaryDirectory(prefix="vidload-check-") as folder:
        unread: dict[str, UnreadableVideoError] = {}
        path = str(Path(folder) / "films.index")
        try:
            build_with_report(sources, path, num_workers=num_workers, progress=progress, on_skip=unread.__setitem__)
        except UnreadableVideoError:
            if not unread:
                raise
            path = ""
        yield path, [_unreadable(name, error) for name, error in unread.items()]


def _unreadable(path: str, error: UnreadableVideoError) -> FilmReport:
    return FilmReport(path, 0, (Finding("unreadable", True, str(error).removeprefix(f"{path}: ")),))
