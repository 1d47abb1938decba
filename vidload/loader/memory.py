"""Slots: one batch's memory each, shared between processes, and given again only when nobody looks at it."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections import OrderedDict
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Mapping", "Ring", "Slot", "memory_file"]

_PROT_READ_WRITE, _MAP_SHARED, _MAP_FAILED = 3, 1, ctypes.c_void_p(-1).value


def memory_file(name: str, size: int) -> int:
    """Descriptor of a new file of `size` bytes in memory, zeros that take no memory until they are written.

    From memfd_create: it doesn't count against /dev/shm, and is gone with the last process that maps it, however that
    ends.

    Raises:
        OSError: If there is no memory, or no descriptor, left.
    """
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc


class Mapping:
    """A memory file mapped at one address for as long as this or an array of it lives.

    Python's own mmap objects keep a descriptor open each, so thousands of kept batches would exhaust them.

    Args:
        descriptor: The file; it stays open.
        size: Bytes, more than 0.

    Raises:
        OSError: If it can't be mapped.
    """

    _libc = _libc()

    def __init__(self, descriptor: int, size: int) -> None:
        self.size = size
        self.address = 0
        address = self._libc.mmap(None, size, _PROT_READ_WRITE, _MAP_SHARED, descriptor, 0)
        if address == _MAP_FAILED:
            code = ctypes.get_errno()
            raise OSError(code, f"can't map {size} bytes of memory: {os.strerror(code)}")
        self.address = address

    def array(self, shape: tuple[int, ...], offset: int = 0) -> npt.NDArray[np.uint8]:
        """The memory from a byte offset on as uint8 of a shape. It keeps the mapping alive."""
        return np.asarray(_Lease(self, shape, offset))

    def __del__(self) -> None:
        if self.address:
            self._libc.munmap(self.address, self.size)


class _Lease:
    """What numpy makes an array of, and that array's base: alive as long as the array or any view of it is."""

    def __init__(self, mapping: Mapping, shape: tuple[int, ...], offset: int) -> None:
        if offset + int(np.prod(shape)) > mapping.size:
            raise ValueError(f"{shape} from byte {offset} on doesn't fit into {mapping.size} bytes")
        self._mapping = mapping
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": shape,
            "data": (mapping.address + offset, False),
        }


class Slot:
    """Memory for one batch.

    Args:
        number: Its name in messages.
        size: Bytes.
    """

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.file = memory_file(f"vidload-slot-{number}", size)
        self._mapping: Mapping | None = None

    @property
    def mapping(self) -> Mapping:
        """The memory, mapped once."""
        if self._mapping is None:
            self._mapping = Mapping(self.file, self.size)
        return self._mapping

    def close(self) -> None:
        """Close the file; the mapping stays as long as it is looked at."""
        if self.file >= 0:
            os.close(self.file)
            self.file = -1

    def __del__(self) -> None:
        self.close()


class Ring:
    """The slots of one loader.

    A slot is in use from `take` until it is given back: by `release`, or, once `lend` made an array of it, when that
    array and all tensors and views made from it are gone. One that is still looked at is never given again; a consumer
    that keeps its batches gets new ones, and the oldest it keeps are its own from then on.

    All methods are for one thread; lent arrays may end in any.

    Args:
        size: Bytes of a slot.
        spare: How many free slots are kept, and how many lent ones are waited for.
    """

    def __init__(self, size: int, spare: int) -> None:
        self._size = size
        self._spare = spare
        self._free: list[Slot] = []
        self._lent: OrderedDict[int, Slot] = OrderedDict()
        self._returned: list[int] = []
        self._made = 0

    def take(self) -> tuple[Slot, bool]:
        """A free slot, and whether it is a new one.

        Raises:
            OSError: If there is no memory left.
        """
        self._collect()
        if self._free:
            return self._free.pop(), False
        slot = Slot(self._made, self._size)
        self._made += 1
        return slot, True

    def release(self, slot: Slot) -> None:
        """Give back a slot that wasn't lent."""
        self._free.append(slot)

    def lend(self, slot: Slot, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
        """The slot's memory as an array; the slot comes back when nothing refers to that any more."""
        lease = _Lease(slot.mapping, shape, 0)
        self._lent[slot.number] = slot
        # It runs wherever the last reference goes, perhaps inside the garbage collector: it takes no lock.
        weakref.finalize(lease, self._returned.append, slot.number).atexit = False
        return np.asarray(lease)

    def retire(self) -> list[int]:
        """Let go of slots beyond those kept; returns their numbers, which no task will name again."""
        self._collect()
        retired = []
        while len(self._free) > self._spare:
            retired.append(self._free.pop(0))
        while len(self._lent) > self._spare:
            retired.append(self._lent.popitem(last=False)[1])
        for slot in retired:
            slot.close()
        return [slot.number for slot in retired]

    def slots(self) -> list[Slot]:
        """All slots that a task may name, now or later, but for those that are taken."""
        return [*self._free, *self._lent.values()]

    def _collect(self) -> None:
        while self._returned:
            slot = self._lent.pop(self._returned.pop(), None)
            if slot is not None:
                self._free.append(slot)

    def close(self) -> None:
        """Let go of all slots; lent memory lives as long as its arrays."""
        for slot in self.slots():
            slot.close()
        self._free.clear()
        self._lent.clear()
