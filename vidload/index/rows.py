"""Rows of an index as bytes: read within the buffers' bounds, whatever a damaged index says, and summed up.

Arrow trusts offsets: one that is wrong makes it read anywhere. Here they only slice, and slices end where buffers do.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from vidload.index.arrays import numpy_view

__all__ = ["RowBytes", "offsets_of"]

_Reader = Callable[[int], Iterable[Any]]


def offsets_of(column: pa.Array) -> npt.NDArray[np.int64]:
    """int64[rows + 1], where each row of a large string, binary or list column begins in its values; a view."""
    return np.frombuffer(column.buffers()[1], np.int64, len(column) + 1, column.offset * 8)


class RowBytes:
    """The rows of some columns: of numbers, of strings or bytes, of lists of numbers or of structs of numbers.

    Args:
        columns: By name, all of one length.

    Raises:
        ValueError: If a column has fewer offsets or numbers than rows; `pyarrow.ArrowInvalid` is one.
    """

    def __init__(self, columns: Mapping[str, pa.Array]) -> None:
        self._texts: dict[str, Callable[[int], memoryview]] = {}
        self._readers = [self._reader(name, column) for name, column in columns.items()]

    def text(self, name: str, row: int) -> bytes:
        """One value of a column of strings or bytes."""
        return bytes(self._texts[name](row))

    def sum(self, row: int) -> int:
        """CRC-32 of a row; of lengths too, as a slice that reaches beyond the end is cut."""
        crc = 0
        for read in self._readers:
            for piece in read(row):
                crc = zlib.crc32(piece, crc)
        return crc

    def _reader(self, name: str, column: pa.Array) -> _Reader:
        kind = column.type
        if pa.types.is_large_list(kind):
            values = column.values
            values.validate()  # lengths and buffers' sizes: touches no page of the file
            fields = range(values.type.num_fields)  # none, but of a struct
            children = [values.field(k) for k in fields] or [values]
            ends, views = offsets_of(column), [numpy_view(child) for child in children]
            return lambda row: (
                ends[row + 1] - ends[row],
                *(view[max(ends[row], 0) : max(ends[row + 1], 0)] for view in views),
            )
        if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
            ends, data = offsets_of(column), memoryview(column.buffers()[2] or b"")
            self._texts[name] = lambda row: data[max(ends[row], 0) : max(ends[row + 1], 0)]
            return lambda row: (ends[row + 1] - ends[row], self._texts[name](row))
        view = numpy_view(column)
        return lambda row: (view[row : row + 1],)
