"""Slots are given again when nobody looks at them, and never before."""

from __future__ import annotations

import random

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.loader.processes import open_files
from vidload.loader.ring import Ring, Slot

SHAPE = (4, 8)


def take(ring: Ring) -> Slot:
    return ring.take(32)[0]


def test_released_slots_are_given_again() -> None:
    ring = Ring(2)
    first, new = ring.take(32)
    assert new
    ring.release(first)
    again, new = ring.take(32)
    assert again is first
    assert not new


def test_taken_slots_are_not_given_again() -> None:
    ring = Ring(2)
    assert len({take(ring).number for _ in range(10)}) == 10


def test_a_lent_slot_comes_back_when_its_array_is_gone() -> None:
    ring = Ring(2)
    slot = take(ring)
    array = ring.lend(slot, SHAPE)
    other = take(ring)
    assert other is not slot
    del array
    assert take(ring) is slot


def test_a_view_keeps_the_slot() -> None:
    ring = Ring(2)
    slot = take(ring)
    row = torch.from_numpy(ring.lend(slot, SHAPE)).permute(1, 0)[3]
    assert take(ring) is not slot
    del row
    assert take(ring) is slot


def test_memory_of_a_reused_slot_is_the_same() -> None:
    ring = Ring(2)
    slot = take(ring)
    where = ring.lend(slot, SHAPE).ctypes.data
    assert ring.lend(take(ring), SHAPE).ctypes.data == where


def test_only_some_free_slots_are_kept() -> None:
    files = open_files()
    ring = Ring(2)
    slots = [take(ring) for _ in range(5)]
    for slot in slots:
        ring.release(slot)
    numbers = {slot.number for slot in slots}
    del slots, slot
    gone = ring.retire()
    assert len(gone) == 3
    assert len(open_files()) == len(files) + 2
    assert {take(ring).number, take(ring).number} == numbers - set(gone)


def test_slots_that_a_consumer_keeps_need_no_open_file() -> None:
    files = open_files()
    ring = Ring(1)
    kept = [ring.lend(take(ring), SHAPE) for _ in range(20)]
    ring.retire()
    assert len(open_files()) == len(files) + 1
    assert len({array.ctypes.data for array in kept}) == 20


def test_the_oldest_that_a_consumer_keeps_become_its_own() -> None:
    ring = Ring(2)
    kept = []
    for value in range(5):
        kept.append(ring.lend(take(ring), SHAPE))
        kept[-1][...] = value
    assert ring.retire() == [0, 1, 2]
    assert [array.flatten().tolist() for array in kept] == [[value] * 32 for value in range(5)]
    kept.clear()
    assert sorted(take(ring).number for _ in range(3)) == [3, 4, 5]  # 0 to 2 are gone for good


@given(seed=st.integers(0, 2**32), spare=st.integers(0, 4), steps=st.integers(1, 60))
def test_nothing_is_overwritten_while_looked_at(seed: int, spare: int, steps: int) -> None:
    ring, choose = Ring(spare), random.Random(seed)
    taken: list[Slot] = []
    kept: list[tuple[np.ndarray, int]] = []
    for step in range(steps):
        match choose.randrange(4):
            case 0:
                ring.retire()
                taken.append(take(ring))
            case 1 if taken:
                array = ring.lend(taken.pop(choose.randrange(len(taken))), SHAPE)
                array[...] = step  # what a worker writes
                kept.append((array, step))
            case 2 if taken:
                ring.release(taken.pop(choose.randrange(len(taken))))
            case 3 if kept:
                kept.pop(choose.randrange(len(kept)))
        for slot in taken:
            slot.mapping.array(SHAPE)[...] = 255  # a worker is at it
        assert all((array == value).all() for array, value in kept)
