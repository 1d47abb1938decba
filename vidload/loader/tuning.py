"""Choosing the number of workers and the prefetch depth from what a few samples cost on this machine."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from vidload.dataset import ClipDataset
from vidload.loader.machine import available_memory, usable_cores
from vidload.loader.transfer import tensors_of

__all__ = ["AUTO", "Cost", "Tuning", "measure_cost", "tune"]

AUTO = "auto"

_logger = logging.getLogger("vidload")

_TRIED = 4
"""Samples that are loaded to see what they cost."""

_BUDGET = 0.25
"""Share of the memory there is that workers and batches may take."""

_WORKER_BYTES = 160 << 20
"""What a worker process takes besides its samples: measured with PyAV and decord, without torch."""

_QUICK = 0.001
"""Seconds of a sample below which one worker keeps up with most steps."""


@dataclass(frozen=True)
class Cost:
    """What samples cost: their mean and largest time in seconds, and bytes."""

    mean: float
    largest: float
    size: int


@dataclass(frozen=True)
class Tuning:
    """What was chosen, and why."""

    num_workers: int
    prefetch_batches: int
    reason: str


def measure_cost(dataset: Any, seed: int, clock: Callable[[], float] = time.perf_counter) -> Cost:
    """Load a few samples, spread over the data set; the first one isn't counted, as it opens things."""
    count = len(dataset)
    samples = sorted({number * (count - 1) // max(1, _TRIED) for number in range(_TRIED + 1)})
    seconds, size = [], 0
    for sample in samples:
        start = clock()
        try:
            if isinstance(dataset, ClipDataset) and dataset.decoder != "dali":
                value = dataset.seeded_sample(sample, seed, 0)
            elif isinstance(dataset, ClipDataset):
                value = dataset.plan(*dataset.locate(sample), lambda: 0.5)
            else:
                value = dataset[sample]
        except Exception:  # it will be an error in its turn, where it can be dealt with
            continue
        seconds.append(clock() - start)
        size = max(size, _size_of(value))
    if isinstance(dataset, ClipDataset):
        dataset.close()
        if dataset.clip_shape is not None:
            size = max(size, math.prod(dataset.clip_shape))
    timed = seconds[1:] or seconds or [0.0]
    return Cost(sum(timed) / len(timed), max(timed), size)


def tune(
    cost: Cost,
    batch_size: int,
    num_workers: int | None,
    prefetch_batches: int | None,
    *,
    cores: int | None = None,
    memory: int | None = None,
) -> Tuning:
    """Choose what is left open; the data's order doesn't depend on either.

    Args:
        cost: Of samples.
        batch_size: Samples of a batch.
        num_workers: None to have it chosen.
        prefetch_batches: None to have it chosen.
        cores: Processors; by default those that this process may use.
        memory: Bytes there are; by default those that can be had.
    """
    cores = usable_cores() if cores is None else cores
    budget = int((available_memory() if memory is None else memory) * _BUDGET)
    told = [
        f"a sample takes {cost.mean * 1000:.1f} ms (at most {cost.largest * 1000:.1f}) and {cost.size / 2**20:.1f} MiB"
    ]
    if num_workers is None:
        if cost.mean < _QUICK:
            num_workers, why = 1, "samples are quick"
        else:
            # The training itself needs a processor; with two or fewer, workers use what it leaves.
            num_workers = cores if cores <= 2 else cores - 1
            why = f"{cores} cores"
        most = max(1, budget // 2 // (_WORKER_BYTES + 4 * cost.size))
        if num_workers > most:
            num_workers, why = most, f"{budget / 2**30:.1f} GiB of memory for workers and batches"
        told.append(f"num_workers={num_workers} ({why})")
    if prefetch_batches is None:
        busy = max(1, num_workers)
        # Two samples for each worker, and as many as the others load while one takes longest.
        spread = cost.largest / cost.mean if cost.mean > 0 else 1.0
        prefetch_batches = max(2, math.ceil(2 * busy / batch_size), math.ceil(spread * busy / batch_size))
        why = f"two samples a worker, and slow ones take {spread:.1f} times as long as others"
        most = max(1, budget // 2 // max(1, batch_size * cost.size))
        if prefetch_batches > most:
            prefetch_batches, why = (
                most,
                f"batches of {batch_size * cost.size / 2**20:.0f} MiB and {budget / 2**30:.1f} GiB",
            )
        told.append(f"prefetch_batches={prefetch_batches} ({why})")
    tuning = Tuning(num_workers, prefetch_batches, "; ".join(told))
    _logger.info("chosen: %s", tuning.reason)
    return tuning


def _size_of(value: Any) -> int:
    return sum(
        tensor.numel() * tensor.element_size() for tensor in tensors_of(value) if isinstance(tensor, torch.Tensor)
    )
