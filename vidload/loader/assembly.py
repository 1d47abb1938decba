"""How a batch comes about from the tasks of its samples: in place for clips, collated for anything else."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import default_collate

from vidload.dataset import ClipDataset
from vidload.errors import ArgumentError, SampleError, VidloadError
from vidload.loader.batch import make_batch
from vidload.loader.messages import ClipTask, CollateTask, SampleTask, Task
from vidload.loader.parcel import ROW_BYTES, Parcel, open_copied, open_mapped
from vidload.loader.pixels import ClipPixels
from vidload.loader.ring import Ring, Slot
from vidload.loader.stats import Stats
from vidload.transforms.planar import Wire

__all__ = ["Assembly", "ClipAssembly", "RowsError", "SampleAssembly", "locate"]

Bool = npt.NDArray[np.bool_]


class Assembly(Protocol):
    """What differs between clips and samples of any kind."""

    row_bytes: int
    """Bytes of one sample in a batch's slot; 0 where no slot is needed."""

    tasks_per_worker: int
    """Tasks that a worker is handed before it has finished the first of them."""

    def task(self, number: int, epoch: int, step: int, sample: Any, slot: int, row: int) -> Task:
        """The task of one sample."""
        ...

    def collate(self, number: int, epoch: int, step: int, slot: int, results: list[Any]) -> Task | None:
        """The task that makes a batch of all results, or None where `finish` does."""
        ...

    def finish(
        self,
        epoch: int,
        step: int,
        samples: list[Any],
        repeated: Bool | None,
        results: list[Any],
        ring: Ring | None,
        slot: Slot | None,
    ) -> Any:
        """The batch. Where the slot's memory is part of it, the slot is lent, else it is released.

        Args:
            epoch: The epoch.
            step: The batch within the epoch.
            samples: Which they are.
            repeated: bool[B], which of them are repetitions; None for none.
            results: What their tasks gave; or, of a collate task, its result and the files that came along.
            ring: Where slots come from.
            slot: The batch's.

        Raises:
            SampleError: If what came from a process can't be loaded in this one.
            RowsError: If samples turn out wrong here; `finish` is called again when they were replaced in `results`.
        """
        ...

    def close(self) -> None:
        """Let go of what is kept open."""
        ...


class RowsError(Exception):
    """Samples of a batch that turned out wrong when it was made.

    Args:
        errors: By row.
        again: Rows whose samples are to be loaded once more before it is an error.
    """

    def __init__(self, errors: dict[int, VidloadError], again: frozenset[int]) -> None:
        super().__init__(errors)
        self.errors = errors
        self.again = again


class ClipAssembly:
    """Clips lie in the slot already; the slot is the batch's memory.

    Args:
        dataset: The clips, all of one shape.
        seed: The loader's.
        wire: How their pixels lie in the slot.
        pixels: Makes what the user gets of that, later; None where it is that already.
        stats: Told of what was done for clips.
    """

    # The one it is at, and the next, so that it never waits for the scheduler.
    tasks_per_worker = 2

    def __init__(
        self,
        dataset: ClipDataset,
        seed: int,
        wire: Wire = "rgb",
        pixels: ClipPixels | None = None,
        stats: Stats | None = None,
    ) -> None:
        shape = dataset.wire_shape(wire)
        assert shape is not None
        self._dataset = dataset
        self._shape = shape
        self._seed = seed
        self._wire = wire
        self._pixels = pixels
        self._stats = stats or Stats()
        self.row_bytes = math.prod(shape)

    def task(self, number: int, epoch: int, step: int, sample: Any, slot: int, row: int) -> Task:
        """Decode a clip into its row of the slot."""
        video, clip = locate(self._dataset, sample, epoch)
        return ClipTask(number, epoch, step, sample, slot, row, video, clip, self._seed, self._wire)

    def collate(self, number: int, epoch: int, step: int, slot: int, results: list[Any]) -> Task | None:
        """None: there is nothing to collate."""
        return None

    def finish(
        self,
        epoch: int,
        step: int,
        samples: list[Any],
        repeated: Bool | None,
        results: list[Any],
        ring: Ring | None,
        slot: Slot | None,
    ) -> Any:
        """A `Batch` whose video is the slot, or a `RawBatch` of it."""
        assert ring is not None
        assert slot is not None
        for fact in results:
            self._stats.count_work(fact.times.work)
        video = torch.from_numpy(ring.lend(slot, (len(samples), *self._shape)))
        batch = make_batch(video, results, samples, repeated, epoch, step)
        return batch if self._pixels is None else self._pixels.prepare(batch, results, samples)

    def close(self) -> None:
        """Nothing is kept open."""


class SampleAssembly:
    """Samples of any kind, and what a collate function makes of them.

    Args:
        seed: The loader's.
        packed: Whether samples lie packed in a slot, as those of processes do.
        default_collate: Whether torch's ``default_collate`` makes the batches.
    """

    # No more, or a finished batch would wait for a sample of a later one before it is collated.
    tasks_per_worker = 1

    def __init__(self, seed: int, packed: bool, default_collate: bool) -> None:
        self._seed = seed
        self._default_collate = default_collate
        self.row_bytes = ROW_BYTES if packed else 0

    def task(self, number: int, epoch: int, step: int, sample: Any, slot: int, row: int) -> Task:
        """Take a sample."""
        return SampleTask(number, epoch, step, sample, slot, row, self._seed)

    def collate(self, number: int, epoch: int, step: int, slot: int, results: list[Any]) -> Task | None:
        """Collate all samples; where a worker would have to load torch for a few small values, `finish` does it."""
        if self._default_collate and all(_is_small(result) for result in results):
            return None
        return CollateTask(number, epoch, step, slot, results)

    def finish(
        self,
        epoch: int,
        step: int,
        samples: list[Any],
        repeated: Bool | None,
        results: list[Any],
        ring: Ring | None,
        slot: Slot | None,
    ) -> Any:
        """What the collate function made."""
        if ring is not None and slot is not None:
            ring.release(slot)
        try:
            if slot is not None and all(_is_small(result) for result in results):
                return default_collate([open_copied(parcel, slot.file) for parcel in results])
            value, files = results
            return open_mapped(value, files) if isinstance(value, Parcel) else value
        except Exception as error:
            raise SampleError(
                f"the batch of step {step} of epoch {epoch} can't be made of what came from workers: "
                f"{type(error).__name__}: {error}"
            ) from error

    def close(self) -> None:
        """Nothing is kept open."""


def locate(dataset: ClipDataset, sample: Any, epoch: int) -> tuple[int, int]:
    """(row of the video, number of the clip in it) of a sample.

    Raises:
        ArgumentError: If there is no such sample.
    """
    try:
        return dataset.locate(sample)
    except (IndexError, TypeError) as error:
        raise ArgumentError(
            f"the sampler gives {sample!r} in epoch {epoch}, but the data set has the samples 0 to {len(dataset) - 1}"
        ) from error


def _is_small(result: Any) -> bool:
    return isinstance(result, Parcel) and result.torchless and not result.sizes
