"""A trace that Chrome (chrome://tracing) and Perfetto open: every span of all workers on one clock."""

from __future__ import annotations

import json
import os
from typing import Any

from vidload.errors import ArgumentError
from vidload.loader.span import Span

__all__ = ["ChromeTrace"]

_CONSUMER = 0
"""Row of the loader's own process; workers' rows follow."""


class ChromeTrace:
    """Writes spans into a file as they come: one JSON array of complete events, times in microseconds.

    Format: Google's "Trace Event Format". Until it is closed the array lacks its end, which viewers forgive.

    Args:
        path: The file; what is there is overwritten.
        rank: Shown as the process.

    Raises:
        ArgumentError: If it can't be written.
    """

    def __init__(self, path: str | os.PathLike[str], rank: int = 0) -> None:
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
            self._file = os.open(path, flags, 0o644)
        except OSError as error:
            raise ArgumentError(f"{os.fspath(path)}: {error.strerror}; give a file that can be written") from error
        self._rank = rank
        self._rows: set[int] = set()
        self._write("[\n" + self._named("process_name", _CONSUMER, f"vidload, rank {rank}"))

    def add(self, span: Span) -> None:
        """Write a span; from any thread: one write to a file opened for appending doesn't mix with others."""
        if self._file < 0:
            return
        row = span.worker + 1
        text = ""
        if row not in self._rows:
            self._rows.add(row)
            name = f"worker {span.worker}" if span.worker >= 0 else "training"
            text = ",\n" + self._named("thread_name", row, name)
        event = {
            "name": span.kind,
            "cat": f"epoch {span.epoch}",
            "ph": "X",
            "ts": round(span.start * 1e6, 1),
            "dur": round((span.end - span.start) * 1e6, 1),
            "pid": self._rank,
            "tid": row,
            "args": {"epoch": span.epoch, "step": span.step},
        }
        self._write(f"{text},\n{json.dumps(event)}")

    def close(self) -> None:
        """End the array."""
        file, self._file = self._file, -1
        if file >= 0:
            os.write(file, b"\n]\n")
            os.close(file)

    def _named(self, kind: str, row: int, name: str) -> str:
        event: dict[str, Any] = {"name": kind, "ph": "M", "pid": self._rank, "tid": row, "args": {"name": name}}
        return json.dumps(event)

    def _write(self, text: str) -> None:
        os.write(self._file, text.encode())

    def __del__(self) -> None:
        if getattr(self, "_file", -1) >= 0:
            self.close()
