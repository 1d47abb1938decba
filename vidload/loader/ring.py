"""Slots: one batch's memory each, shared between processes, and given again only when nobody looks at it."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from functools import cached_property

import numpy as np
import numpy.typing as npt

from vidload.loader.memory import Lease, Mapping, MemoryFile

__all__ = ["Ring", "Slot"]


class Slot:
    """Memory for one batch.

    Args:
        number: Its name in messages.
        size: Bytes.

    Raises:
        OSError: If there is no memory, or no descriptor, left.
    """

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.file = MemoryFile.make(f"vidload-slot-{number}", size)

    @cached_property
    def mapping(self) -> Mapping:
        """The memory, mapped when first asked for."""
        return Mapping(self.file, self.size)


class Ring:
    """The slots of one loader.

    A slot is in use from `take` until it is given back: by `release`, or, once `lend` made an array of it, when that
    array and all tensors and views made from it are gone. One that is still looked at is never given again; a consumer
    that keeps its batches gets new ones, and the oldest it keeps are its own from then on.

    All methods are for one thread; lent arrays may end in any.

    Args:
        spare: How many free slots are kept, and how many lent ones are waited for.
    """

    def __init__(self, spare: int) -> None:
        self._largest = 0
        self._spare = spare
        self._free: list[Slot] = []
        self._lent: OrderedDict[int, Slot] = OrderedDict()
        self._returned: list[int] = []
        self._made = 0

    def take(self, size: int) -> tuple[Slot, bool]:
        """A free slot of at least so many bytes, and whether it is a new one.

        Raises:
            OSError: If there is no memory left.
        """
        self._collect()
        self._largest = max(self._largest, size)
        for at in reversed(range(len(self._free))):
            if self._free[at].size >= size:
                return self._free.pop(at), False
        slot = Slot(self._made, self._largest)
        self._made += 1
        return slot, True

    def release(self, slot: Slot) -> None:
        """Give back a slot that wasn't lent."""
        self._free.append(slot)

    def lend(self, slot: Slot, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
        """The slot's memory as an array; the slot comes back when nothing refers to that any more."""
        lease = Lease(slot.mapping, shape)
        self._lent[slot.number] = slot
        # It runs wherever the last reference goes, perhaps inside the garbage collector: it takes no lock.
        weakref.finalize(lease, self._returned.append, slot.number).atexit = False
        return np.asarray(lease)

    def retire(self) -> list[int]:
        """Let go of slots beyond those kept; returns their numbers, which `take` will not give again."""
        self._collect()
        retired = []
        while len(self._free) > self._spare:
            retired.append(self._free.pop(0).number)
        while len(self._lent) > self._spare:
            retired.append(self._lent.popitem(last=False)[0])  # the memory lives as long as its arrays
        return retired

    def _collect(self) -> None:
        while self._returned:
            slot = self._lent.pop(self._returned.pop(), None)
            if slot is not None:
                self._free.append(slot)
