from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

from tests.loader.processes import open_files
from vidload.loader import parcel as parcels
from vidload.loader.memory import MemoryFile
from vidload.loader.parcel import ROW_BYTES, open_copied, open_mapped, pack_into, pack_whole


def sample(seed: int) -> dict[str, object]:
    random = np.random.default_rng(seed)
    return {
        "odd": random.integers(0, 2, 16_385).astype(bool),
        "array": random.random(10_000),
        "tensor": torch.from_numpy(random.random(10_000)).to(torch.bfloat16),
        "small": random.random(3),
        "name": f"sample {seed}",
    }


def assert_equal(one: dict[str, object], two: dict[str, object]) -> None:
    assert one.keys() == two.keys()
    for left, right in zip(one.values(), two.values(), strict=True):
        assert torch.equal(left, right) if isinstance(left, torch.Tensor) else np.array_equal(left, right)  # type: ignore[arg-type]


def test_samples_lie_in_rows_of_one_file() -> None:
    file = MemoryFile.make("test", 3 * ROW_BYTES)
    packed = [pack_into(file, row, sample(row)) for row in range(3)]
    for row, parcel in enumerate(packed):
        assert len(parcel.sizes) == 3
        assert_equal(open_copied(parcel, file), sample(row))


def test_a_copy_stays_when_the_row_is_written_again() -> None:
    file = MemoryFile.make("test", ROW_BYTES)
    first = open_copied(pack_into(file, 0, sample(1)), file)
    pack_into(file, 0, sample(2))
    assert_equal(first, sample(1))


def test_a_batch_lives_in_its_file_and_can_be_written() -> None:
    before = open_files()
    packed, files = pack_whole(sample(1))
    value = open_mapped(packed, files)
    del files
    gc.collect()
    assert open_files() == before  # it is mapped; no descriptor is needed any more
    assert_equal(value, sample(1))
    value["array"][:] = 1
    value["tensor"] += 1


def test_buffers_are_aligned_as_torch_aligns() -> None:
    value = open_mapped(*pack_whole(sample(1)))
    assert value["array"].ctypes.data % 64 == 0
    assert value["tensor"].data_ptr() % 64 == 0


def test_what_is_small_needs_no_file() -> None:
    packed, files = pack_whole({"a": 1, "b": torch.ones(3)})
    assert files == []
    assert open_mapped(packed, files)["b"].tolist() == [1, 1, 1]


def test_a_sample_too_large_for_its_row_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "ROW_BYTES", 64_000)
    file = MemoryFile.make("test", 128_000)
    pack_into(file, 1, np.zeros(64_000, np.uint8))
    with pytest.raises(ValueError, match="it takes 64064 bytes; at most 64000 are possible"):
        pack_into(file, 1, np.zeros(64_001, np.uint8))


def test_no_memory_for_a_batch_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    before = open_files()
    monkeypatch.setattr(parcels.os, "pwrite", full)
    with pytest.raises(OSError, match="No space"):
        pack_whole(sample(1))
    assert open_files() == before
