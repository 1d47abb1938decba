"""Checks of a loader's arguments."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from torch.utils.data import IterableDataset

from vidload.clips.order import SamplerOrder
from vidload.errors import ArgumentError

__all__ = ["check_count", "check_length", "sampler_order"]


def sampler_order(
    sampler: Iterable[Any] | None,
    batch_sampler: Iterable[Any] | None,
    batch_size: int,
    shuffle: bool,
    drop_last: bool,
    ahead: int,
) -> SamplerOrder:
    """The order of a sampler, or of a sampler of batches.

    Raises:
        ArgumentError: If other arguments contradict it.
    """
    if batch_sampler is not None:
        if sampler is not None or batch_size != 1 or shuffle or drop_last:
            raise ArgumentError("batch_sampler: leave out batch_size, shuffle, sampler and drop_last beside it")
        return SamplerOrder(batch_sampler, None, ahead=ahead)
    assert sampler is not None
    if shuffle:
        raise ArgumentError("sampler: leave out shuffle beside it; the sampler gives the order")
    return SamplerOrder(sampler, batch_size, drop_last, ahead)


def check_count(name: str, value: Any, least: int) -> int:
    """An argument as a plain int.

    Raises:
        ArgumentError: If it is no integer, or too small.
    """
    try:
        count = operator.index(value)
    except TypeError:
        count = least - 1
    if isinstance(value, bool) or count < least:
        raise ArgumentError(f"{name}={value!r}: give an integer of at least {least}")
    return count


def check_length(dataset: Any) -> int:
    """Number of samples of a data set.

    Raises:
        ArgumentError: If it isn't a map-style one.
    """
    map_style = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    if not map_style or isinstance(dataset, IterableDataset):
        raise ArgumentError(
            f"dataset={dataset!r}: give a map-style data set, one with __len__ and __getitem__ (iterable ones have no "
            "order to prefetch by)"
        )
    return len(dataset)
