"""The order of a sampler: which epochs are read when, and how long they stay known."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vidload.clips.order import SamplerOrder
from vidload.errors import ArgumentError


class Counting:
    """Gives its epoch's number over and over, and can't go back."""

    def __init__(self, length: int = 3) -> None:
        self.length = length
        self.epoch = -1

    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        return iter([self.epoch] * self.length)

    def __len__(self) -> int:
        return self.length


class Settable(Counting):
    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch - 1


def test_epochs_are_read_once_and_none_is_skipped() -> None:
    order = SamplerOrder(Counting(), 2)
    assert [order.samples(2, step) for step in range(order.steps(2))] == [[2, 2], [2]]
    assert order.samples(3, 0) == [3, 3]
    assert order.samples(2, 1) == [2]
    with pytest.raises(ArgumentError, match="epoch 1 was read before"):
        order.samples(1, 0)


def test_a_sampler_with_set_epoch_goes_anywhere() -> None:
    order = SamplerOrder(Settable(), 2)
    assert [order.samples(epoch, 0)[0] for epoch in (5, 0, 9, 2)] == [5, 0, 9, 2]


def test_epochs_within_reach_of_the_consumer_stay_known() -> None:
    order = SamplerOrder(Counting(), 1, ahead=6)
    for epoch in range(5):
        order.steps(epoch)
    assert order.samples(1, 0) == [1]  # a consumer here has six batches of epochs 2 and 3 ahead
    with pytest.raises(ArgumentError, match="epoch 0 was read before"):
        order.samples(0, 0)


def test_a_replacement_is_another_key_and_the_same_each_time() -> None:
    order = SamplerOrder(["a", "b", "c"], 2)
    for step, row in ((0, 0), (0, 1), (1, 0)):
        found = [order.replacement(0, step, row, attempt) for attempt in range(8)]
        assert found == [order.replacement(0, step, row, attempt) for attempt in range(8)]
        assert (order.samples(0, step)[row],) not in found
    assert SamplerOrder(["a"], 2).replacement(0, 0, 0, 0) is None


@pytest.mark.parametrize(("drop_last", "batches"), [(False, [[0, 1], [2]]), (True, [[0, 1]])])
def test_the_last_batch(drop_last: bool, batches: list[list[int]]) -> None:
    order = SamplerOrder(range(3), 2, drop_last)
    assert len(order) == order.steps(0) == len(batches)
    assert [order.samples(0, step) for step in range(len(order))] == batches
    assert order.repeated(0, 0) is None
