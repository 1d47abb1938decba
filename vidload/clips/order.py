"""The order of batches over all epochs: what the loader asks of the schedule, or of a sampler of the user's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from vidload.clips.random import replacement
from vidload.errors import ArgumentError

__all__ = ["Order", "SamplerOrder", "as_list"]


class Order(Protocol):
    """Which samples make up which batch; `Schedule` is one. For one thread."""

    def __len__(self) -> int:
        """Batches per epoch, as far as is known before one begins."""
        ...

    def steps(self, epoch: int) -> int:
        """Batches of an epoch."""
        ...

    def samples(self, epoch: int, step: int) -> Sequence[Any] | npt.NDArray[np.int64]:
        """What the data set is asked for, for one batch."""
        ...

    def repeated(self, epoch: int, step: int) -> npt.NDArray[np.bool_] | None:
        """Which samples of a batch are repetitions that make the ranks' batches equally large; None for none."""
        ...

    def replacement(self, epoch: int, step: int, row: int, attempt: int) -> tuple[Any] | None:
        """(sample,) that takes the place of one that can't be loaded, the same in every run; None if there is none.

        Args:
            epoch: The epoch.
            step: The batch within the epoch.
            row: The place within the batch.
            attempt: How many replacements failed before, from 0.
        """
        ...


def as_list(samples: Sequence[Any] | npt.NDArray[np.int64]) -> list[Any]:
    """A batch's samples as plain Python objects."""
    return samples.tolist() if isinstance(samples, np.ndarray) else list(samples)


class SamplerOrder:
    """The order of a sampler, or of a sampler of batches, iterated anew for each epoch.

    ``set_epoch(epoch)`` is called first where the sampler (or the one within a sampler of batches) has it. One that
    hasn't may draw its epochs from a generator: so none is skipped, and an epoch is only read once.

    Args:
        sampler: Gives keys of samples, or lists of keys where `batch_size` is None.
        batch_size: Samples per batch, or None for a sampler of batches.
        drop_last: Whether to leave out an epoch's last batch where it would be smaller.
        ahead: How many batches may be asked for ahead of the one in use: epochs within its reach stay known.

    Raises:
        ArgumentError: If the sampler can't be iterated again, or has no length; later, if it gives no batch, or an
            epoch is asked for that is known no more.
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int | None, drop_last: bool = False, ahead: int = 0) -> None:
        name = "batch_sampler" if batch_size is None else "sampler"
        if not hasattr(sampler, "__iter__") or not hasattr(sampler, "__len__"):
            raise ArgumentError(f"{name}={sampler!r}: give one that can be iterated again each epoch and has a length")
        self._name = name
        self._sampler = sampler
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._ahead = ahead
        inner = getattr(sampler, "sampler", None)
        self._set_epochs = [found for owner in (sampler, inner) if (found := getattr(owner, "set_epoch", None))]
        self._read: dict[int, list[list[Any]]] = {}
        self._next = 0

    def __len__(self) -> int:
        count = len(self._sampler)  # type: ignore[arg-type]
        if self._batch_size is None:
            return count
        return count // self._batch_size if self._drop_last else -(-count // self._batch_size)

    def steps(self, epoch: int) -> int:
        """Batches of an epoch, which is read now if it wasn't."""
        return len(self._batches(epoch))

    def samples(self, epoch: int, step: int) -> Sequence[Any]:
        """Keys of one batch."""
        return self._batches(epoch)[step]

    def repeated(self, epoch: int, step: int) -> npt.NDArray[np.bool_] | None:
        """None: a sampler doesn't say."""
        return None

    def replacement(self, epoch: int, step: int, row: int, attempt: int) -> tuple[Any] | None:
        """Any other key of the epoch."""
        batches = self._batches(epoch)
        keys = [key for batch in batches for key in batch]
        place = sum(map(len, batches[:step])) + row
        if len(keys) < 2:
            return None
        return (keys[replacement(0, epoch, place, attempt, len(keys))],)

    def _batches(self, epoch: int) -> list[list[Any]]:
        if epoch in self._read:
            return self._read[epoch]
        if epoch < self._next and not self._set_epochs:
            raise ArgumentError(
                f"{self._name}: epoch {epoch} was read before, and a sampler can't be asked for it again; make a new "
                "loader with a new sampler"
            )
        first = epoch if self._set_epochs else self._next
        for number in range(first, epoch + 1):
            for set_epoch in self._set_epochs:
                set_epoch(number)
            batches = self._iterate()
        self._next = max(self._next, epoch + 1)
        self._read[epoch] = batches
        self._forget()
        if not batches:
            raise ArgumentError(f"{self._name}: it gives no batch in epoch {epoch}")
        return batches

    def _forget(self) -> None:
        """Keep the latest two epochs, and those before them that the consumer may still be in."""
        newer = 0
        for number in sorted(self._read, reverse=True)[1:]:
            if newer > self._ahead:
                del self._read[number]
            else:
                newer += len(self._read[number])

    def _iterate(self) -> list[list[Any]]:
        if self._batch_size is None:
            return [list(batch) for batch in self._sampler]
        keys = list(self._sampler)
        end = len(keys) - len(keys) % self._batch_size if self._drop_last else len(keys)
        return [keys[at : min(at + self._batch_size, end)] for at in range(0, end, self._batch_size)]
