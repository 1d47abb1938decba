"""The consumer's side of loading: where it is in the schedule, and the batches that are ready for it.

Two kinds: `vidload.loader.inline` loads a batch when it is asked for, `vidload.loader.prefetch` ahead of time. What the
consumer does may be interrupted anywhere (Ctrl-C, a signal handler that closes the loader, a finalizer): no lock is
held, and the position is one value that is replaced before a batch is given away.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vidload.errors import LoaderClosedError, VidloadError
from vidload.loader.span import Span

__all__ = ["END", "Finished", "Key", "Pipeline"]

END = object()
"""What `Pipeline.take` gives when the epoch has no more batches."""

Key = tuple[int, int]
"""(epoch, step) of a batch."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A batch, or the error that takes its place."""

    batch: Any = None
    error: VidloadError | None = None


class Pipeline(ABC):
    """All batches of all epochs, taken one after another.

    Args:
        steps_per_epoch: Batches per epoch.
        trace: Called with the span of every wait for a batch.
    """

    def __init__(self, steps_per_epoch: int, trace: Callable[[Span], None] | None) -> None:
        self._steps = steps_per_epoch
        self._trace = trace
        self._position: Key = (0, 0)
        self._closed = False
        self._process = os.getpid()

    @property
    def position(self) -> Key:
        """The consumer's epoch, and how many batches of it were taken."""
        return self._position

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def begin(self, epoch: int) -> None:
        """Go to the start of a later epoch."""
        if epoch > self._position[0]:
            self._position = (epoch, 0)
            self._moved()

    def take(self) -> Any:
        """The next batch of the consumer's epoch, or `END`.

        Raises:
            VidloadError: The batch's error, or what ended the workers.
            LoaderClosedError: If the pipeline was closed, or belongs to another process.
        """
        epoch, step = self._position
        if step >= self._steps:
            return END
        start = time.monotonic()
        if os.getpid() != self._process:
            raise LoaderClosedError(
                "the loader belongs to the process that this one was forked from; make one in each process"
            )
        key, finished = self._await(epoch, step)
        self._position = (epoch, step + 1)
        self._taken(key)
        if self._trace is not None:
            self._trace(Span("wait", -1, epoch, key[1], start, time.monotonic()))
        if finished.error is not None:
            raise finished.error
        return finished.batch

    def _check_open(self) -> None:
        if self._closed:
            raise LoaderClosedError("the loader was closed; make a new one to go on")

    @abstractmethod
    def _await(self, epoch: int, step: int) -> tuple[Key, Finished]:
        """Wait until the consumer's next batch is ready; it stays until it is `_taken`."""

    def _taken(self, key: Key) -> None:
        """The consumer has a batch, and is one further."""
        self._moved()

    @abstractmethod
    def _moved(self) -> None:
        """The consumer's position is another."""

    @abstractmethod
    def start(self) -> None:
        """Start the workers, and loading."""

    @abstractmethod
    def leave(self, epoch: int) -> None:
        """No more batches of an epoch will be taken. From any thread, perhaps a finalizer."""

    @abstractmethod
    def close(self) -> None:
        """End the workers, and let go of what isn't the consumer's. Safe to call again, from any thread."""
