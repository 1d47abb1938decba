"""Where a loader shows its figures to ``vidload top``: a file in memory, which is gone with the process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

from vidload.loader.memory import MemoryFile

__all__ = ["BOARD_NAME", "Board", "read_board"]

BOARD_NAME = "vidload-stats"
"""Of the memory file: others find it among a process's open files by that."""

_SIZE = 64 * 1024
_EVERY = 1.0
"""Seconds from one writing to the next, at least."""


class Board:
    """Keeps figures readable from outside.

    Args:
        figures: Gives them, as JSON can hold them.
        clock: Seconds.
    """

    def __init__(self, figures: Callable[[], dict[str, Any]], clock: Callable[[], float] = time.monotonic) -> None:
        self._figures = figures
        self._clock = clock
        self._next = clock()
        self._file: MemoryFile | None = None

    def update(self) -> None:
        """Write the figures, if it is time to."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + _EVERY
        if self._file is None:
            self._file = MemoryFile.make(BOARD_NAME, _SIZE)
        text = json.dumps({"time": time.time(), "pid": os.getpid(), **self._figures()}).encode()
        if len(text) <= _SIZE - 8:
            os.pwrite(self._file.fileno(), len(text).to_bytes(8, "little") + text, 0)

    def close(self) -> None:
        """Take the board down."""
        file, self._file = self._file, None
        self._next = float("inf")
        if file is not None:
            file.close()


def read_board(data: bytes) -> dict[str, Any] | None:
    """What is written on a board, from its file's bytes; None for nothing, or for what is being written."""
    length = int.from_bytes(data[:8], "little")
    try:
        found = json.loads(data[8 : 8 + length])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
