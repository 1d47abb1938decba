"""What becomes of a sample that can't be loaded: an error for the consumer, or another sample in its place."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

from vidload.clips.order import Order
from vidload.errors import ArgumentError, ErrorRateExceeded, VidloadError
from vidload.loader.stats import Stats

__all__ = ["Faults", "OnError"]

_logger = logging.getLogger(__name__)

OnError = Literal["raise", "replace"]

_MAX_ATTEMPTS = 10
"""Samples tried in one place before its error is raised after all."""

_FEWEST = 100
"""Samples that the share of errors is taken of, at least: one early error is no share."""


class Faults:
    """Decides on errors, and keeps count. For one thread.

    Args:
        on_error: ``"raise"``, or ``"replace"`` by a sample that the order draws.
        max_error_rate: Largest share of errors among all samples tried, counted from 100 samples on.
        log: File that gets a line of JSON for each error, or None.
        order: Draws what takes a sample's place.
        describe: More about a sample, for the log.
        rank: This process's, for the log.
        stats: Told of what is loaded and what isn't.

    Raises:
        ArgumentError: If an argument can't work.
    """

    def __init__(
        self,
        on_error: OnError,
        max_error_rate: float,
        log: str | os.PathLike[str] | None,
        order: Order,
        describe: Callable[[Any], dict[str, Any]],
        rank: int,
        stats: Stats | None = None,
    ) -> None:
        if on_error not in get_args(OnError):
            raise ArgumentError(f"on_error={on_error!r}: there are {' and '.join(map(repr, get_args(OnError)))}")
        if isinstance(max_error_rate, bool) or not 0 <= max_error_rate <= 1:
            raise ArgumentError(f"max_error_rate={max_error_rate!r}: give a share of 0 to 1")
        self._on_error = on_error
        self._max_error_rate = max_error_rate
        self._log = None if log is None or on_error == "raise" else Path(log)
        if self._log is not None and not os.access(_existing(self._log), os.W_OK):
            raise ArgumentError(f"error_log={os.fspath(self._log)!r} can't be written; give another file, or None")
        self._order = order
        self.describe = describe
        """More about a sample, for messages and the log."""
        self._rank = rank
        self._stats = stats or Stats()
        self._errors = 0
        self._tried = 0
        self._last: list[str] = []

    def count(self, samples: int) -> None:
        """Count the samples of a batch that was loaded."""
        self._tried += samples
        self._stats.count("batches")
        self._stats.count("samples", samples)

    def replacement(
        self, epoch: int, step: int, row: int, sample: Any, attempt: int, error: VidloadError
    ) -> tuple[Any] | None:
        """What to load in a sample's place: (sample,), or None if its error is to be raised.

        Args:
            epoch: The batch's epoch.
            step: The batch within the epoch.
            row: The place within the batch.
            sample: What couldn't be loaded.
            attempt: How many were tried in this place before, from 0.
            error: Why.

        Raises:
            ErrorRateExceeded: If there are too many errors.
        """
        self._stats.count("errors")
        if self._on_error == "raise":
            return None
        self._errors += 1
        self._tried += 1
        found = self._order.replacement(epoch, step, row, attempt) if attempt < _MAX_ATTEMPTS else None
        self._write(epoch, step, row, sample, None if found is None else found[0], error)
        if self._errors > self._max_error_rate * max(self._tried, _FEWEST):
            raise ErrorRateExceeded(
                f"{self._errors} of {self._tried} samples couldn't be loaded, more than max_error_rate="
                f"{self._max_error_rate} allows{'' if self._log is None else f'; all are listed in {self._log}'}. "
                "The last ones:\n" + "\n".join(f"- {line}" for line in self._last)
            )
        if found is not None:
            self._stats.count("replaced")
        return found

    def _write(self, epoch: int, step: int, row: int, sample: Any, replaced_by: Any, error: VidloadError) -> None:
        message = str(error)
        self._last = [*self._last[-4:], message.splitlines()[0]]
        if self._log is None:
            return
        line = {
            "time": time.time(),
            "rank": self._rank,
            "epoch": epoch,
            "step": step,
            "row": row,
            "sample": sample,
            "replaced_by": replaced_by,
            "error": type(error).__name__,
            "message": message,
            **self.describe(sample),
        }
        data = (json.dumps(line, default=repr, ensure_ascii=False) + "\n").encode()
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            # One write to a file opened for appending: lines of several ranks don't mix.
            descriptor = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.write(descriptor, data)
            finally:
                os.close(descriptor)
        except OSError as failure:  # a full disk doesn't end a run
            _logger.warning("%s can't be written (%s); it lacks this line: %s", self._log, failure, data.decode())


def _existing(path: Path) -> Path:
    """The path, or the folder nearest to it that exists."""
    return next(found for found in (path, *path.absolute().parents) if found.exists())
