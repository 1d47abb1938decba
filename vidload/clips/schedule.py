"""The order of clips over all epochs, as a pure function of (seed, epoch, step)."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from vidload.clips.random import check_word, epoch_permutation, replacement
from vidload.errors import ArgumentError

__all__ = ["Schedule"]


@lru_cache(maxsize=4)
def _permutation(seed: int, epoch: int, num_samples: int) -> npt.NDArray[np.int64]:
    """The epoch's order, kept for the epochs in work: prefetching walks in two of them around an epoch's end."""
    order = epoch_permutation(seed, epoch, num_samples)
    order.setflags(write=False)
    return order


@dataclass(frozen=True)
class Schedule:
    """Which samples make up which batch.

    Every sample comes once per epoch, except for the remainder that `drop_last` leaves out. It depends on nothing but
    its arguments, so neither the number of workers nor prefetching nor a restart changes the order.

    With several ranks, each step takes ``batch_size * world_size`` samples of one global order, and each rank a part of
    them, so all ranks have as many steps, and on another number of ranks with the same product the order goes on as it
    was. Where the last step's samples don't divide by the ranks, the order's first samples are repeated; `repeated`
    tells which, so that an evaluation counts none twice.

    Args:
        num_samples: How many samples the data set has, at least 1.
        batch_size: Samples per batch and rank, at least 1.
        seed: Seed of the order, 0 to 2**64 - 1.
        shuffle: Whether each epoch has a random order of its own.
        drop_last: Whether to leave out the last step of an epoch where it would be smaller than the others. When
            shuffled, other samples are left out in each epoch.
        rank: Which of the ranks this is, from 0.
        world_size: How many ranks there are.

    Raises:
        ArgumentError: If an argument is out of its range, or `drop_last` would leave nothing.
    """

    num_samples: int
    batch_size: int
    seed: int = 0
    shuffle: bool = False
    drop_last: bool = False
    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        for name in ("num_samples", "batch_size"):
            if check_word(name, getattr(self, name)) < 1:
                reason = ": the data set is empty" if name == "num_samples" else ": give at least 1"
                raise ArgumentError(f"{name}=0{reason}")
            object.__setattr__(self, name, operator.index(getattr(self, name)))
        object.__setattr__(self, "seed", check_word("seed", self.seed))
        if isinstance(self.world_size, bool) or operator.index(self.world_size) < 1:
            raise ArgumentError(f"world_size={self.world_size!r}: give the number of ranks, at least 1")
        if isinstance(self.rank, bool) or not 0 <= operator.index(self.rank) < self.world_size:
            raise ArgumentError(f"rank={self.rank!r}: with world_size={self.world_size}, ranks are 0 to world_size - 1")
        if self.drop_last and self.num_samples < self._per_step:
            ranks = f" on {self.world_size} ranks" if self.world_size > 1 else ""
            raise ArgumentError(
                f"drop_last=True with batch_size={self.batch_size}{ranks} leaves nothing of {self.num_samples} "
                "samples: give a smaller batch_size or drop_last=False"
            )

    @property
    def _per_step(self) -> int:
        """Samples of all ranks in a step."""
        return self.batch_size * self.world_size

    @property
    def steps_per_epoch(self) -> int:
        """How many batches an epoch has, the same on all ranks."""
        if self.drop_last:
            return self.num_samples // self._per_step
        return -(-self.num_samples // self._per_step)

    def __len__(self) -> int:
        return self.steps_per_epoch

    def steps(self, epoch: int) -> int:
        """How many batches an epoch has: always as many."""
        return self.steps_per_epoch

    def samples(self, epoch: int, step: int) -> npt.NDArray[np.int64]:
        """Sample numbers of one batch of this rank.

        Args:
            epoch: From 0, without an end.
            step: The batch within the epoch, from 0 to `steps_per_epoch` - 1.

        Returns:
            int64[batch_size], or fewer in the last batch of an epoch.

        Raises:
            ArgumentError: If there is no such epoch or step.
        """
        epoch = check_word("epoch", epoch)
        places = self._places(step) % self.num_samples
        if not self.shuffle:
            return places
        batch: npt.NDArray[np.int64] = _permutation(self.seed, epoch, self.num_samples)[places]
        return batch

    def repeated(self, epoch: int, step: int) -> npt.NDArray[np.bool_] | None:
        """Which samples of a batch are repetitions that make the ranks' last batches equally large.

        Returns:
            bool[batch], for the samples of ``samples(epoch, step)``; None where none is.

        Raises:
            ArgumentError: If there is no such step.
        """
        repeated = self._places(step) >= self.num_samples
        return repeated if repeated.any() else None

    def replacement(self, epoch: int, step: int, row: int, attempt: int) -> tuple[int] | None:
        """Any other sample in the place of one that can't be loaded, the same in every run.

        Args:
            epoch: The epoch.
            step: The batch within the epoch.
            row: The place within the batch.
            attempt: How many replacements failed before, from 0.

        Returns:
            (sample,), or None if there is no other.
        """
        if self.num_samples < 2:
            return None
        sample = int(self.samples(epoch, step)[row])
        return (replacement(self.seed, epoch, sample, attempt, self.num_samples),)

    def _places(self, step: int) -> npt.NDArray[np.int64]:
        """Places in the epoch's order; those beyond its end begin it anew."""
        step = check_word("step", step)
        if step >= self.steps_per_epoch:
            raise ArgumentError(f"step={step}: an epoch has the steps 0 to {self.steps_per_epoch - 1}")
        first = step * self._per_step
        of_rank = -(-min(self._per_step, self.num_samples - first) // self.world_size)
        begin = first + self.rank * of_rank
        return np.arange(begin, begin + of_rank, dtype=np.int64)
