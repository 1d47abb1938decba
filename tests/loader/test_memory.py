from __future__ import annotations

import gc
import os
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.loader.processes import open_files
from vidload.loader.memory import Lease, Mapping, MemoryFile


def mapped(file: MemoryFile) -> bool:
    """Whether a memory file of this name is mapped into this process."""
    name = os.readlink(f"/proc/self/fd/{file.fileno()}").split()[0]
    return name in Path("/proc/self/maps").read_text()


def test_file_is_zeros_and_closed_with_the_object() -> None:
    before = open_files()
    file = MemoryFile.make("test", 10_000)
    assert os.pread(file.fileno(), 20_000, 0) == bytes(10_000)
    del file
    assert open_files() == before


def test_file_can_be_closed_twice() -> None:
    file = MemoryFile.make("test", 1)
    file.close()
    with open(os.devnull) as other:  # takes the number that is free now
        file.close()
        os.fstat(other.fileno())


def test_file_is_not_inherited() -> None:
    assert not os.get_inheritable(MemoryFile.make("test", 1).fileno())


def test_sparse_file_takes_no_memory() -> None:
    file = MemoryFile.make("test", 1 << 40)
    os.pwrite(file.fileno(), b"x", 1 << 39)
    assert os.fstat(file.fileno()).st_blocks * 512 <= 2 << 20  # one page, perhaps a huge one


def test_arrays_share_the_memory_at_their_offset() -> None:
    mapping = Mapping(MemoryFile.make("test", 100), 100)
    whole, part = mapping.array((100,)), mapping.array((2, 3), 10)
    part[1, 2] = 7
    assert whole[15] == 7
    assert whole.sum() == 7
    assert part.flags.writeable


def test_two_mappings_of_a_file_see_the_same() -> None:
    file = MemoryFile.make("test", 8)
    one, two = Mapping(file, 8).array((8,)), Mapping(file, 8).array((8,))
    one[:] = 5
    assert two.tolist() == [5] * 8


@pytest.mark.parametrize("look", [lambda a: a, lambda a: a[1:, ::2], lambda a: torch.from_numpy(a).permute(1, 0)[0]])
def test_mapping_lives_exactly_as_long_as_it_is_looked_at(look: object) -> None:
    assert callable(look)
    file = MemoryFile.make(f"test-{id(look)}", 4096)
    view = look(Mapping(file, 4096).array((64, 64)))
    gc.collect()
    assert mapped(file)
    view[...] = 3
    assert view.flatten().tolist() == [3] * len(view.flatten())
    del view
    gc.collect()
    assert not mapped(file)


def test_lease_lives_as_long_as_the_array_made_of_it() -> None:
    lease = Lease(Mapping(MemoryFile.make("test", 16), 16), (4, 4))
    alive = weakref.ref(lease)
    tensor = torch.from_numpy(np.asarray(lease))[1:2]
    del lease
    gc.collect()
    assert alive() is not None
    del tensor
    assert alive() is None


def test_what_does_not_fit_is_refused() -> None:
    mapping = Mapping(MemoryFile.make("test", 100), 100)
    with pytest.raises(ValueError, match=r"\(11, 10\) from byte 0 on doesn't fit into 100 bytes"):
        mapping.array((11, 10))
    with pytest.raises(ValueError, match="from byte 91"):
        mapping.array((10,), 91)


def test_what_cannot_be_mapped_is_an_error() -> None:
    file = MemoryFile.make("test", 1)
    file.close()
    with pytest.raises(OSError, match="can't map 1 bytes of memory: Bad file descriptor"):
        Mapping(file, 1)
