"""Each sample once per epoch, in an order that depends on nothing but the seed and the epoch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vidload.clips.random import epoch_permutation
from vidload.clips.schedule import Schedule
from vidload.errors import ArgumentError

SIZES = st.integers(1, 200)
BATCHES = st.integers(1, 250)
SEEDS = st.integers(0, 2**64 - 1)
EPOCHS = st.integers(0, 10**6)


def epoch_of(schedule: Schedule, epoch: int) -> list[int]:
    return [int(i) for step in range(schedule.steps_per_epoch) for i in schedule.samples(epoch, step)]


@given(SIZES, BATCHES, SEEDS, EPOCHS, st.booleans())
def test_each_sample_comes_once_per_epoch(n: int, batch: int, seed: int, epoch: int, shuffle: bool) -> None:
    schedule = Schedule(n, batch, seed=seed, shuffle=shuffle)
    assert sorted(epoch_of(schedule, epoch)) == list(range(n))
    assert schedule.steps_per_epoch == -(-n // batch)


@given(SIZES, BATCHES, SEEDS, EPOCHS)
def test_batch_size_cuts_the_order_and_does_not_change_it(n: int, batch: int, seed: int, epoch: int) -> None:
    whole = Schedule(n, n, seed=seed, shuffle=True).samples(epoch, 0).tolist()
    assert epoch_of(Schedule(n, batch, seed=seed, shuffle=True), epoch) == whole


@given(SIZES, st.integers(1, 50), SEEDS, EPOCHS)
def test_drop_last_gives_whole_batches_only(n: int, batch: int, seed: int, epoch: int) -> None:
    if n < batch:
        with pytest.raises(ArgumentError, match="drop_last"):
            Schedule(n, batch, seed=seed, drop_last=True)
        return
    schedule = Schedule(n, batch, seed=seed, shuffle=True, drop_last=True)
    seen = epoch_of(schedule, epoch)
    assert {len(schedule.samples(epoch, step)) for step in range(schedule.steps_per_epoch)} == {batch}
    assert len(seen) == len(set(seen)) == n - n % batch


def test_without_shuffle_the_order_is_that_of_the_data_set() -> None:
    schedule = Schedule(7, 3)
    assert [schedule.samples(4, step).tolist() for step in range(3)] == [[0, 1, 2], [3, 4, 5], [6]]


def test_epochs_differ_and_the_remainder_with_them() -> None:
    schedule = Schedule(10, 3, shuffle=True, drop_last=True)
    orders = [epoch_of(schedule, epoch) for epoch in range(20)]
    assert len({tuple(order) for order in orders}) == 20
    assert len({frozenset(range(10)) - frozenset(order) for order in orders}) > 1


def test_seeds_differ() -> None:
    assert epoch_of(Schedule(50, 5, seed=1, shuffle=True), 0) != epoch_of(Schedule(50, 5, seed=2, shuffle=True), 0)


def test_asking_out_of_order_gives_the_same_batches() -> None:
    schedule = Schedule(40, 4, seed=9, shuffle=True)
    places = [(epoch, step) for epoch in range(8) for step in range(10)]
    forward = {place: schedule.samples(*place).tolist() for place in places}
    again = Schedule(40, 4, seed=9, shuffle=True)
    assert {place: again.samples(*place).tolist() for place in reversed(places)} == forward


def test_a_batch_belongs_to_its_caller() -> None:
    schedule = Schedule(8, 4, shuffle=True)
    batch = schedule.samples(0, 0)
    wanted = batch.copy()
    batch[:] = -1
    assert np.array_equal(schedule.samples(0, 0), wanted)


def test_many_threads_see_one_order() -> None:
    schedule = Schedule(500, 500, seed=3, shuffle=True)
    with ThreadPoolExecutor(8) as pool:
        orders = list(pool.map(lambda i: schedule.samples(i % 10, 0), range(200)))
    for i, order in enumerate(orders):
        assert np.array_equal(order, epoch_permutation(3, i % 10, 500))


@pytest.mark.parametrize("step", [3, -1, 2**70])
def test_a_step_outside_the_epoch_is_refused(step: int) -> None:
    with pytest.raises(ArgumentError, match="step"):
        Schedule(7, 3).samples(0, step)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"num_samples": 0}, "num_samples=0.*empty"),
        ({"num_samples": -1}, "num_samples=-1"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 2.0}, "batch_size=2.0"),
        ({"seed": -1}, "seed=-1"),
        ({"num_samples": 3, "batch_size": 4, "drop_last": True}, "drop_last=True with batch_size=4.* 3 samples"),
    ],
)
def test_arguments_out_of_range_are_refused_by_name(arguments: dict[str, int], named: str) -> None:
    with pytest.raises(ArgumentError, match=named):
        Schedule(**{"num_samples": 10, "batch_size": 2, **arguments})  # type: ignore[arg-type]


@given(SIZES, st.integers(1, 20), st.integers(1, 7), SEEDS, EPOCHS, st.booleans())
@settings(deadline=None)
def test_ranks_share_the_steps_of_one_order(
    n: int, batch: int, world_size: int, seed: int, epoch: int, drop_last: bool
) -> None:
    if drop_last and n < batch * world_size:
        return
    whole = Schedule(n, batch * world_size, seed, True, drop_last)
    ranks = [Schedule(n, batch, seed, True, drop_last, rank=rank, world_size=world_size) for rank in range(world_size)]
    assert {len(rank) for rank in ranks} == {len(whole)}
    for step in range(len(whole)):
        samples = np.stack([rank.samples(epoch, step) for rank in ranks])
        marks = [rank.repeated(epoch, step) for rank in ranks]
        repeated = np.stack([np.zeros(samples.shape[1], bool) if mark is None else mark for mark in marks])
        assert samples[~repeated].tolist() == whole.samples(epoch, step).tolist()
        assert not repeated.any() or (step == len(whole) - 1 and not drop_last)
        assert repeated.sum() < world_size
