"""The consumer's side of loading: where it is in the order, and the batches that are ready for it.

Two kinds: `vidload.loader.inline` loads a batch when it is asked for, `vidload.loader.prefetch` ahead of time. What the
consumer does may be interrupted anywhere (Ctrl-C, a signal handler that closes the loader, a finalizer): no lock is
held, and the position is one value that is replaced before a batch is given away.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vidload.errors import LoaderClosedError, VidloadError
from vidload.loader.board import Board
from vidload.loader.span import Span
from vidload.loader.stats import Stats

__all__ = ["END", "Finished", "Key", "Pipeline", "Position"]

END = object()
"""What `Pipeline.take` gives when the epoch has no more batches."""

Key = tuple[int, int]
"""(epoch, step) of a batch."""


class Position(NamedTuple):
    """Where the consumer is.

    Attributes:
        generation: How often it jumped; what was loaded before a jump is of no interest after it.
        epoch: Its epoch.
        taken: How many batches of it were taken.
        done: Which, where they aren't taken in order; else nothing.
    """

    generation: int
    epoch: int
    taken: int
    done: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Finished:
    """A batch, or the error that takes its place; and which of its samples are repetitions."""

    batch: Any = None
    error: VidloadError | None = None
    repeated: npt.NDArray[np.bool_] | None = None


class Pipeline(ABC):
    """All batches of all epochs, taken one after another.

    Args:
        in_order: Whether batches are taken in the order's order, or as they are finished.
        stats: Told of every wait for a batch.
    """

    def __init__(self, in_order: bool, stats: Stats) -> None:
        self._in_order = in_order
        self._stats = stats
        self._board = Board(stats.summary)
        self._position = Position(0, 0, 0)
        self._closed = False
        self._process = os.getpid()

    @property
    def position(self) -> Position:
        """Where the consumer is."""
        return self._position

    def begin(self, epoch: int) -> None:
        """Go to the start of a later epoch."""
        generation, current, *_ = self._position
        if epoch > current:
            self._position = Position(generation, epoch, 0)
            self._moved()

    def jump(self, epoch: int, taken: int, done: frozenset[int]) -> None:
        """Go anywhere: to where `taken` batches of an epoch were taken, those of `done` where not in order."""
        self._position = Position(self._position.generation + 1, epoch, taken, done)
        self._moved()

    def take(self) -> Finished | object:
        """The next batch of the consumer's epoch, or `END`.

        Raises:
            VidloadError: The batch's error, or what ended the workers.
            LoaderClosedError: If the pipeline was closed, or belongs to another process.
        """
        position = self._position
        start = time.monotonic()
        self.check_open()
        found = self._await(position)
        if found is None:
            return END
        key, finished = found
        done = position.done if self._in_order else position.done | {key[1]}
        self._position = position._replace(taken=position.taken + 1, done=done)
        self._taken(key)
        self._stats.observe(Span("wait", -1, *key, start, time.monotonic()))
        if finished.error is not None:
            raise finished.error
        return finished

    def check_open(self) -> None:
        """Refuse a pipeline that nothing comes out of.

        Raises:
            LoaderClosedError: If it was closed, or belongs to another process.
        """
        if os.getpid() != self._process:
            raise LoaderClosedError(
                "the loader belongs to the process that this one was forked from; make one in each process"
            )
        if self._closed:
            raise LoaderClosedError("the loader was closed; make a new one to go on")

    @abstractmethod
    def _await(self, position: Position) -> tuple[Key, Finished] | None:
        """Wait until the consumer's next batch is ready; it stays until it is `_taken`. None at the epoch's end."""

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
