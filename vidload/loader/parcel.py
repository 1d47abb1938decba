"""Samples and batches in memory that processes share: the pickle in the message, large buffers in a memory file."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from vidload.loader.memory import Mapping, MemoryFile
from vidload.loader.packing import dump, load

__all__ = ["ROW_BYTES", "Parcel", "open_copied", "open_mapped", "pack_into", "pack_whole"]

ROW_BYTES = 1 << 34
"""Bytes from one sample to the next in a slot: none is larger, and what isn't written takes no memory."""

_ALIGNMENT = 64  # of torch's own allocations


@dataclass(frozen=True, slots=True)
class Parcel:
    """A pickled value; the large buffers it leaves out lie in a memory file.

    Attributes:
        data: The pickle, protocol 5.
        sizes: Bytes of each buffer.
        offsets: Where in the file each begins.
        torchless: Whether the process that packed it has no torch loaded.
    """

    data: bytes
    sizes: tuple[int, ...]
    offsets: tuple[int, ...]
    torchless: bool = field(default_factory=lambda: "torch" not in sys.modules)


def pack_into(file: MemoryFile, row: int, value: Any) -> Parcel:
    """Pack a sample into its row of a slot.

    Raises:
        ValueError: If it takes more than `ROW_BYTES`.
        Exception: Whatever pickling it raises.
    """
    data, buffers = dump(value)
    offsets, size = _layout(buffers)
    if size > ROW_BYTES:
        raise ValueError(f"it takes {size} bytes; at most {ROW_BYTES} are possible")
    return _write(file, data, buffers, [row * ROW_BYTES + offset for offset in offsets])


def pack_whole(value: Any) -> tuple[Parcel, list[MemoryFile]]:
    """Pack a batch, with a file of its own where it needs one.

    Raises:
        OSError: If there is no memory, or no descriptor, left.
        Exception: Whatever pickling it raises.
    """
    data, buffers = dump(value)
    if not buffers:
        return Parcel(data, (), ()), []
    offsets, size = _layout(buffers)
    file = MemoryFile.make("vidload-batch", size)
    return _write(file, data, buffers, offsets), [file]


def open_copied(parcel: Parcel, file: MemoryFile) -> Any:
    """The value, in memory of its own: user code may keep it when the file is written again."""
    buffers = []
    for size, offset in zip(parcel.sizes, parcel.offsets, strict=True):
        buffer = bytearray(size)
        view = memoryview(buffer)
        while view:
            count = os.preadv(file.fileno(), [view], offset)
            view, offset = view[count:], offset + count
        buffers.append(buffer)
    return load(parcel.data, buffers)


def open_mapped(parcel: Parcel, files: Sequence[MemoryFile]) -> Any:
    """The value; its arrays and tensors live in the memory of the file, which nobody else may map."""
    if not files:
        return load(parcel.data, ())
    mapping = Mapping(files[0], parcel.offsets[-1] + parcel.sizes[-1])
    return load(
        parcel.data,
        [mapping.array((size,), offset) for size, offset in zip(parcel.sizes, parcel.offsets, strict=True)],
    )


def _layout(buffers: Sequence[memoryview]) -> tuple[list[int], int]:
    """Where to put buffers one after another, and the bytes that takes."""
    ends = accumulate((-(-buffer.nbytes // _ALIGNMENT) * _ALIGNMENT for buffer in buffers), initial=0)
    *offsets, size = ends
    return offsets, size


def _write(file: MemoryFile, data: bytes, buffers: Sequence[memoryview], offsets: Sequence[int]) -> Parcel:
    for buffer, offset in zip(buffers, offsets, strict=True):
        view = buffer
        while view:
            written = os.pwrite(file.fileno(), view, offset)
            view, offset = view[written:], offset + written
    return Parcel(data, tuple(buffer.nbytes for buffer in buffers), tuple(offsets))
