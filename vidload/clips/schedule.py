"""The order of clips over all epochs, as a pure function of (seed, epoch, step)."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from vidload.clips.random import check_word, epoch_permutation
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

    Args:
        num_samples: How many samples the data set has, at least 1.
        batch_size: Samples per batch, at least 1.
        seed: Seed of the order, 0 to 2**64 - 1.
        shuffle: Whether each epoch has a random order of its own.
        drop_last: Whether to leave out the last batch of an epoch where it would be smaller than the others. When
            shuffled, other samples are left out in each epoch.

    Raises:
        ArgumentError: If an argument is out of its range, or `drop_last` would leave nothing.
    """

    num_samples: int
    batch_size: int
    seed: int = 0
    shuffle: bool = False
    drop_last: bool = False

    def __post_init__(self) -> None:
        for name in ("num_samples", "batch_size"):
            if check_word(name, getattr(self, name)) < 1:
                reason = ": the data set is empty" if name == "num_samples" else ": give at least 1"
                raise ArgumentError(f"{name}=0{reason}")
            object.__setattr__(self, name, operator.index(getattr(self, name)))
        object.__setattr__(self, "seed", check_word("seed", self.seed))
        if self.drop_last and self.num_samples < self.batch_size:
            raise ArgumentError(
                f"drop_last=True with batch_size={self.batch_size} leaves nothing of {self.num_samples} samples: "
                "give a smaller batch_size or drop_last=False"
            )

    @property
    def steps_per_epoch(self) -> int:
        """How many batches an epoch has."""
        if self.drop_last:
            return self.num_samples // self.batch_size
        return -(-self.num_samples // self.batch_size)

    def samples(self, epoch: int, step: int) -> npt.NDArray[np.int64]:
        """Sample numbers of one batch.

        Args:
            epoch: From 0, without an end.
            step: The batch within the epoch, from 0 to `steps_per_epoch` - 1.

        Returns:
            int64[batch_size], or fewer in the last batch of an epoch.

        Raises:
            ArgumentError: If there is no such epoch or step.
        """
        epoch, step = check_word("epoch", epoch), check_word("step", step)
        if step >= self.steps_per_epoch:
            raise ArgumentError(f"step={step}: an epoch has the steps 0 to {self.steps_per_epoch - 1}")
        start = step * self.batch_size
        stop = min(start + self.batch_size, self.num_samples)
        if not self.shuffle:
            return np.arange(start, stop, dtype=np.int64)
        batch: npt.NDArray[np.int64] = _permutation(self.seed, epoch, self.num_samples)[start:stop].copy()
        return batch
