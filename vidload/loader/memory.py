"""Memory that processes share: files in memory, and mappings of them that live as long as somebody looks."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Lease", "Mapping", "MemoryFile"]

_PROT_READ_WRITE, _MAP_SHARED, _MAP_FAILED = 3, 1, ctypes.c_void_p(-1).value


class MemoryFile:
    """An open file in memory; closed when nobody refers to it any more.

    From memfd_create: it doesn't count against /dev/shm, and is gone with the last process that has it open or maps it,
    however that ends.

    Args:
        descriptor: The file, which belongs to this object from now on.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def make(cls, name: str, size: int) -> MemoryFile:
        """A new file of `size` bytes, zeros that take no memory until they are written.

        Raises:
            OSError: If there is no memory, or no descriptor, left.
        """
        file = cls(os.memfd_create(name, os.MFD_CLOEXEC))
        os.ftruncate(file.fileno(), size)
        return file

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def close(self) -> None:
        """Close the file; mappings of it stay."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


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
        file: The file; it may be closed afterwards.
        size: Bytes, more than 0.

    Attributes:
        before_unmapping: Called, where it isn't None, before the memory goes; whoever registers it elsewhere sets it.

    Raises:
        OSError: If it can't be mapped.
    """

    _libc = _libc()

    def __init__(self, file: MemoryFile, size: int) -> None:
        self.size = size
        self.address = 0
        self.before_unmapping: Callable[[], None] | None = None
        address = self._libc.mmap(None, size, _PROT_READ_WRITE, _MAP_SHARED, file.fileno(), 0)
        if address == _MAP_FAILED:
            code = ctypes.get_errno()
            raise OSError(code, f"can't map {size} bytes of memory: {os.strerror(code)}")
        self.address = address

    def array(self, shape: tuple[int, ...], offset: int = 0) -> npt.NDArray[np.uint8]:
        """The memory from a byte offset on as uint8 of a shape. It keeps the mapping alive."""
        return np.asarray(Lease(self, shape, offset))

    def __del__(self) -> None:
        if self.address:
            if self.before_unmapping is not None:
                self.before_unmapping()
            self._libc.munmap(self.address, self.size)


class Lease:
    """What numpy makes an array of, and that array's base: alive as long as the array or any view of it is.

    Args:
        mapping: The memory.
        shape: The array's.
        offset: Bytes from the mapping's start.
    """

    def __init__(self, mapping: Mapping, shape: tuple[int, ...], offset: int = 0) -> None:
        if offset + int(np.prod(shape)) > mapping.size:
            raise ValueError(f"{shape} from byte {offset} on doesn't fit into {mapping.size} bytes")
        self._mapping = mapping
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": shape,
            "data": (mapping.address + offset, False),
        }
