"""Progress of reading files, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["show_progress"]

_LINE_EVERY_S = 10.0


@contextmanager
def show_progress(total: int, shown: bool) -> Iterator[Callable[[], None]]:
    """Count files: a bar on a terminal, elsewhere a line every ten seconds.

    Args:
        total: How many files there are.
        shown: Whether anything is printed.

    Yields:
        To be called after each file.
    """
    if not shown or not total:
        yield lambda: None
    elif sys.stderr.isatty():
        with _bar(total) as advance:
            yield advance
    else:
        yield _Lines(total)


@contextmanager
def _bar(total: int) -> Iterator[Callable[[], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("reading videos"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        yield lambda: progress.advance(task)


class _Lines:
    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._last = time.monotonic()

    def __call__(self) -> None:
        self._done += 1
        if time.monotonic() - self._last >= _LINE_EVERY_S:
            self._last = time.monotonic()
            print(f"read {self._done} of {self._total} files", file=sys.stderr, flush=True)
