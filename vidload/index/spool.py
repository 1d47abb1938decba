"""Rows that come one after another, kept on disk by column until they make one record batch.

An index can be larger than memory while its single record batch has to be written at once. So each column's buffers
grow in files of their own, which have no name (nothing is left behind, however the process ends), and are mapped in the
end.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import IO

import numpy as np
import pyarrow as pa

from vidload.errors import ArgumentError
from vidload.index.arrays import numpy_view

__all__ = ["RowSpool"]

_MANY_ROWS = 512
_MANY_BYTES = 32 << 20


class _Buffer:
    """One growing file."""

    def __init__(self, folder: str) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder, buffering=1 << 16)  # noqa: SIM115

    def write(self, data: object) -> None:
        self._file.write(memoryview(data).cast("B"))  # type: ignore[arg-type]

    def mapped(self) -> pa.Buffer:
        self._file.flush()
        size = os.fstat(self._file.fileno()).st_size
        if not size:
            return pa.py_buffer(b"")
        return pa.py_buffer(mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ))

    def close(self) -> None:
        self._file.close()


class _Column:
    """One column without nulls: fixed width, large string or binary, struct or large list of these."""

    def __init__(self, kind: pa.DataType, folder: str) -> None:
        self._kind = kind
        self._length = 0
        self._buffers: list[_Buffer] = []
        self._children: list[_Column] = []
        if pa.types.is_struct(kind):
            self._children = [_Column(kind.field(k).type, folder) for k in range(kind.num_fields)]
        elif pa.types.is_large_list(kind):
            self._buffers = [_Buffer(folder)]
            self._children = [_Column(kind.value_type, folder)]
        elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
            self._buffers = [_Buffer(folder), _Buffer(folder)]
        else:
            self._buffers = [_Buffer(folder)]
        if pa.types.is_nested(kind) != bool(self._children):
            raise TypeError(f"columns of {kind} can't be spooled")
        self._end = 0  # of the values that the offsets count
        if len(self._buffers) + len(self._children) == 2:
            self._buffers[0].write(np.zeros(1, np.int64))

    def append(self, array: pa.Array) -> None:
        if array.null_count:
            raise ValueError(f"a column of {self._kind} has nulls")
        self._length += len(array)
        if pa.types.is_struct(self._kind):
            for k, child in enumerate(self._children):
                child.append(array.field(k))
        elif len(self._buffers) + len(self._children) == 2:
            offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
            first, last = int(offsets[0]), int(offsets[-1])
            self._buffers[0].write(offsets[1:] + (self._end - first))
            self._end += last - first
            if self._children:
                self._children[0].append(array.values.slice(first, last - first))
            elif last > first:
                self._buffers[1].write(array.buffers()[2][first:last])
        else:
            self._buffers[0].write(numpy_view(array))

    def array(self) -> pa.Array:
        children = [child.array() for child in self._children]
        if pa.types.is_struct(self._kind):
            return pa.StructArray.from_arrays(children, fields=list(self._kind))
        buffers = [None, *(buffer.mapped() for buffer in self._buffers)]
        return pa.Array.from_buffers(self._kind, self._length, buffers, null_count=0, children=children)

    def close(self) -> None:
        for buffer in self._buffers:
            buffer.close()
        for child in self._children:
            child.close()


class RowSpool:
    """Takes rows and gives all of them back as one record batch. A context manager.

    Args:
        schema: Of the rows; columns have no nulls.
        folder: Where the space is taken from: about what the rows take.

    Raises:
        ArgumentError: If no file can be made in `folder`, or there is no space left.
    """

    def __init__(self, schema: pa.Schema, folder: str) -> None:
        self._schema = schema
        self._folder = folder
        with self._reporting():
            self._columns = [_Column(field.type, folder) for field in schema]
        self._num_rows = 0
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._newest = (-1, pa.RecordBatch.from_pylist([], schema))  # first row, rows
        self._written = self._newest[1]

    def append(self, rows: pa.RecordBatch) -> int:
        """Add rows; returns the number of the first."""
        first = self._num_rows
        self._num_rows += rows.num_rows
        self._newest = (first, rows)
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        # Columns are written many rows at a time: a row alone is some forty writes.
        if len(self._waiting) >= _MANY_ROWS or self._waiting_bytes >= _MANY_BYTES:
            self._write()
        return first

    def repeat(self, row: int) -> int:
        """Add a row that is here already once more; returns its new number."""
        first, rows = self._newest
        if not first <= row < first + rows.num_rows:
            if row >= self._written.num_rows:
                self._written = self.batch()
            first, rows = 0, self._written
        return self.append(rows.slice(row - first, 1))

    def batch(self) -> pa.RecordBatch:
        """All rows so far: a view of the files, which stays valid when more rows come and after `close`."""
        self._write()
        with self._reporting():
            return pa.RecordBatch.from_arrays([column.array() for column in self._columns], schema=self._schema)

    def close(self) -> None:
        """Close the files; their space is free once no batch uses them."""
        for column in self._columns:
            column.close()

    def __enter__(self) -> RowSpool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self) -> None:
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting, self._waiting_bytes = [], 0
        with self._reporting():
            for rows in table.to_batches():
                for column, array in zip(self._columns, rows.columns, strict=True):
                    column.append(array)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ArgumentError(
                f"{self._folder}: can't be written ({error.strerror}); an index takes its space twice while it is built"
            ) from None
