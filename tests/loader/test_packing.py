"""What comes out of a pickle with its buffers beside it is what went in."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from vidload.loader.packing import dump, load

LARGE = 5_000  # items; more than 16 kB of most types


class Point(NamedTuple):
    x: int
    y: Any


def round_trip(value: Any) -> tuple[Any, int]:
    """The value, and how many buffers it left out."""
    data, buffers = dump(value)
    return load(data, [bytearray(buffer) for buffer in buffers]), len(buffers)


DTYPES = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64,
    torch.float8_e5m2,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (3,), (LARGE, 4)], ids=str)
def test_tensors_of_every_type(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = (torch.rand(shape) * 100).to(dtype)
    result, _ = round_trip(tensor)
    assert result.dtype == dtype
    assert result.shape == shape
    # Bytes, as some types can't be compared.
    assert result.reshape(-1).view(torch.uint8).tolist() == tensor.reshape(-1).view(torch.uint8).tolist()
    assert not result.requires_grad


@pytest.mark.parametrize("count", [10, LARGE])
def test_tensors_are_writable(count: int) -> None:
    result, _ = round_trip(torch.zeros(count))
    result += 1
    assert result.sum() == count


def test_large_tensors_and_arrays_are_not_copied_into_the_pickle() -> None:
    value = {"tensor": torch.rand(LARGE), "array": np.zeros(LARGE), "small": torch.rand(3), "bytes": bytes(LARGE)}
    data, buffers = dump(value)
    assert [buffer.nbytes for buffer in buffers] == [4 * LARGE, 8 * LARGE]
    assert len(data) < 2 * LARGE


def test_a_tensor_that_looks_at_part_of_a_large_one_sends_that_part() -> None:
    whole = torch.arange(1_000_000)
    data, buffers = dump(whole[5:8])
    assert len(data) < 1_000
    assert not buffers
    assert load(data, ()).tolist() == [5, 6, 7]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.rand(100, 100).t(),
        torch.rand(100, 100)[::2, 3::5],
        torch.rand(100).expand(100, 100),
        torch.rand(4, 8, 32, 32).to(memory_format=torch.channels_last),
        torch.rand(1, 3, 2, 40, 40).to(memory_format=torch.channels_last_3d),
        torch.rand(2, 3, 4).flip(0),
        torch.rand(5, requires_grad=True),
        torch.rand(5, requires_grad=True) * 2,
        torch.rand(5, dtype=torch.complex64).conj(),
        torch.rand(5, dtype=torch.complex64).conj().imag,
        torch.rand(10).to_sparse(),
        torch.nn.Parameter(torch.rand(LARGE)),
    ],
    ids=[
        "transposed", "strided", "expanded", "channels_last", "channels_last_3d", "flipped", "requires_grad",
        "with_history", "conjugate", "negative", "sparse", "parameter",
    ],
)  # fmt: skip
def test_tensors_of_every_layout(tensor: torch.Tensor) -> None:
    result, _ = round_trip(tensor)
    assert type(result) is type(tensor)
    assert result.dtype == tensor.dtype
    assert result.requires_grad == tensor.requires_grad
    assert result.is_leaf
    assert torch.equal(
        result.to_dense() if result.is_sparse else result, tensor.to_dense() if tensor.is_sparse else tensor
    )


@pytest.mark.parametrize("large", [False, True])
def test_channels_last_arrives_as_such_and_without_a_copy(large: bool) -> None:
    size = 64 if large else 4
    tensor = torch.rand(2, 3, size, size).to(memory_format=torch.channels_last)
    data, buffers = dump(tensor)
    if large:
        assert np.frombuffer(buffers[0], np.uint8).ctypes.data == tensor.data_ptr()
    result = load(data, buffers)
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert result.stride() == tensor.stride()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(LARGE),
        np.asfortranarray(np.random.default_rng(0).random((100, 100))),
        np.arange(LARGE)[::-3],
        np.array(["ä", "long text"]),
        np.array([1, "a", None], dtype=object),
        np.zeros(LARGE, dtype=[("a", "i4"), ("b", "f8")]),
        np.array("2024-01-01", dtype="datetime64[s]"),
        np.empty((0, 3)),
        np.float32(1.5),
    ],
    ids=lambda array: f"{array.dtype}",
)
def test_arrays_of_every_kind(array: Any) -> None:
    result, _ = round_trip(array)
    assert type(result) is type(array)
    assert result.dtype == array.dtype
    assert result.shape == array.shape
    assert np.array_equal(result, array)


def test_containers_and_classes_of_the_test_itself() -> None:
    class Local(NamedTuple):
        value: Any

    value = OrderedDict(point=Point(1, [2, {"three": (4.5, "ü", None, b"bytes", True)}]), local=Local(torch.ones(2)))
    result, _ = round_trip(value)
    assert result["point"] == value["point"]
    assert type(result["point"]) is Point
    assert result["local"].value.tolist() == [1, 1]


def test_a_tensor_that_occurs_twice_is_still_one() -> None:
    tensor = torch.rand(LARGE)
    (one, two), buffers = round_trip([tensor, tensor])
    assert one is two
    assert buffers == 1
