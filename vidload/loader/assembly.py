"""How a batch comes about from the tasks of its samples: in place for clips, collated for anything else."""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from vidload.dataset import ClipDataset
from vidload.loader.batch import make_batch
from vidload.loader.memory import Mapping, Ring, Slot
from vidload.loader.messages import ClipTask, CollateTask, PackedSample, SampleTask, Task
from vidload.loader.packing import load
from vidload.loader.worker import ROW_STRIDE

__all__ = ["Assembly", "ClipAssembly", "SampleAssembly"]

Int64 = npt.NDArray[np.int64]


class Assembly(Protocol):
    """What differs between clips and samples of any kind."""

    slot_bytes: int
    """Bytes of one batch's slot; 0 where none is needed."""

    def task(self, number: int, epoch: int, step: int, sample: int, slot: int, row: int) -> Task:
        """The task of one sample."""
        ...

    def collate(self, number: int, epoch: int, step: int, slot: int, results: list[Any]) -> Task | None:
        """The task that makes a batch of all results, or None where `finish` does."""
        ...

    def finish(
        self, epoch: int, step: int, samples: Int64, results: list[Any], ring: Ring | None, slot: Slot | None
    ) -> Any:
        """The batch. Where the slot's memory is part of it, the slot is lent, else it is released."""
        ...


class ClipAssembly:
    """Clips lie in the slot already; the slot is the batch's memory.

    Args:
        dataset: The clips.
        batch_size: Clips per batch.
        seed: The loader's.
    """

    def __init__(self, dataset: ClipDataset, batch_size: int, seed: int) -> None:
        shape = dataset.clip_shape
        assert shape is not None
        self._dataset = dataset
        self._shape = shape
        self._seed = seed
        self.slot_bytes = batch_size * int(np.prod(shape))

    def task(self, number: int, epoch: int, step: int, sample: int, slot: int, row: int) -> Task:
        """Decode a clip into its row of the slot."""
        video, clip = self._dataset.locate(sample)
        return ClipTask(number, epoch, step, sample, slot, row, video, clip, self._seed)

    def collate(self, number: int, epoch: int, step: int, slot: int, results: list[Any]) -> Task | None:
        """None: there is nothing to collate."""
        return None

    def finish(
        self, epoch: int, step: int, samples: Int64, results: list[Any], ring: Ring | None, slot: Slot | None
    ) -> Any:
        """A `Batch` whose video is the slot."""
        assert ring is not None
        assert slot is not None
        return make_batch(ring.lend(slot, (len(samples), *self._shape)), results, samples, epoch, step)


class SampleAssembly:
    """Samples of any kind, and what a collate function makes of them.

    Args:
        batch_size: Samples per batch.
        seed: The loader's.
        packed: Whether samples come pickled from processes.
    """

    def __init__(self, batch_size: int, seed: int, packed: bool) -> None:
        self._seed = seed
        self._packed = packed
        self.slot_bytes = batch_size * ROW_STRIDE if packed else 0

    def task(self, number: int, epoch: int, step: int, sample: int, slot: int, row: int) -> Task:
        """Take a sample."""
        return SampleTask(number, epoch, step, sample, slot, row, self._seed)

    def collate(self, number: int, epoch: int, step: int, slot: int, results: list[Any]) -> Task | None:
        """Collate all samples; `results` gets one item more by it, the batch."""
        return CollateTask(number, epoch, step, slot, results)

    def finish(
        self, epoch: int, step: int, samples: Int64, results: list[Any], ring: Ring | None, slot: Slot | None
    ) -> Any:
        """What the collate function made."""
        if ring is not None and slot is not None:
            ring.release(slot)
        (batch,) = results
        return unpack_batch(*batch) if self._packed else batch


def unpack_batch(packed: PackedSample, files: tuple[int, ...]) -> Any:
    """A batch that a process sent; its arrays and tensors live in the file's memory, which nobody else maps."""
    if not files:
        return load(packed.data, ())
    try:
        mapping = Mapping(files[0], sum(packed.lengths))
    finally:
        os.close(files[0])
    buffers, offset = [], 0
    for length in packed.lengths:
        buffers.append(mapping.array((length,), offset))
        offset += length
    return load(packed.data, buffers)
