"""Arrow arrays from numpy and back, without pandas.

Arrow's own conversions (`pyarrow.array`, `Array.to_numpy`) import pandas where it is installed: half a second and fifty
megabytes in every worker, for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["array_of_bytes", "array_of_lists", "array_of_numbers", "numpy_view"]

_DTYPES: Mapping[pa.DataType, type[np.generic]] = {
    pa.int64(): np.int64,
    pa.int32(): np.int32,
    pa.uint8(): np.uint8,
    pa.uint32(): np.uint32,
    pa.float64(): np.float64,
}


def numpy_view(array: pa.Array) -> npt.NDArray[Any]:
    """A read-only view of an array of numbers without nulls."""
    dtype = np.dtype(_DTYPES[array.type])
    if not len(array):
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def array_of_numbers(numbers: npt.ArrayLike, kind: pa.DataType) -> pa.Array:
    """An array of one of the types of numbers that an index has."""
    values = np.ascontiguousarray(numbers, _DTYPES[kind])
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)], null_count=0)


def array_of_bytes(values: Sequence[bytes], kind: pa.DataType) -> pa.Array:
    """A large binary array, or a large string array of values in UTF-8."""
    buffers = [None, pa.py_buffer(_offsets(values)), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(kind, len(values), buffers, null_count=0)


def array_of_lists(lengths: Iterable[Any], values: pa.Array, kind: pa.DataType) -> pa.Array:
    """A large list array: as many of `values` for each list as the item of `lengths` is long."""
    offsets = _offsets(lengths)
    return pa.Array.from_buffers(kind, len(offsets) - 1, [None, pa.py_buffer(offsets)], null_count=0, children=[values])


def _offsets(items: Iterable[Any]) -> npt.NDArray[np.int64]:
    return np.cumsum([0, *map(len, items)], dtype=np.int64)
