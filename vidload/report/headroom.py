"""How much faster training would be if data came at once: whether the loader is the place to look at all."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from vidload.errors import ArgumentError, EpochsExhaustedError
from vidload.loader.loader import VideoLoader

__all__ = ["Headroom", "measure_headroom"]

_KEPT = 4
"""Batches that are replayed in turn: one alone would be in the caches."""


@dataclass(frozen=True)
class Headroom:
    """What `measure_headroom` found.

    Attributes:
        steps: How many steps were measured with each kind of batches.
        loaded: Seconds a step with batches of the loader.
        replayed: Seconds a step with batches that are there already.
    """

    steps: int
    loaded: float
    replayed: float

    @property
    def faster(self) -> float:
        """Share by which training would be faster with an infinitely fast loader: 0.25 for a quarter."""
        return max(0.0, self.loaded / self.replayed - 1) if self.replayed > 0 else 0.0

    def __str__(self) -> str:
        told = (
            f"{self.loaded * 1000:.1f} ms a step with the loader, {self.replayed * 1000:.1f} ms with batches at hand: "
        )
        if self.faster < 0.01:
            return told + "a faster loader would gain nothing"
        return told + f"an infinitely fast loader would make training {self.faster:.0%} faster"


def measure_headroom(
    loader: VideoLoader,
    step: Callable[[Any], Any],
    steps: int = 50,
    *,
    warmup: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> Headroom:
    """Measure training with the loader, and with batches that are there already.

    Both in two parts, in turn. Work that a step leaves on an accelerator counts.

    Args:
        loader: The loader; its batches are used up.
        step: The training step, called with a batch.
        steps: Steps of each kind, at least 2.
        warmup: Steps before that aren't counted.
        clock: Seconds.

    Raises:
        ArgumentError: If the loader has too few batches.
    """
    if steps < 2:
        raise ArgumentError(f"steps={steps}: give at least 2")
    batches = _endless(loader)
    kept: deque[Any] = deque(maxlen=_KEPT)

    def load(count: int) -> float:
        start = clock()
        for _ in range(count):
            try:
                batch = next(batches)
            except StopIteration:
                raise ArgumentError(
                    f"the loader has fewer than {warmup + steps} batches; give more epochs, or fewer steps"
                ) from None
            kept.append(batch)
            step(batch)
        _finish()
        return clock() - start

    def replay(count: int) -> float:
        start = clock()
        for number in range(count):
            step(kept[number % len(kept)])
        _finish()
        return clock() - start

    load(max(1, warmup))
    parts = (steps // 2, steps - steps // 2)
    loaded = replayed = 0.0
    for part in parts:
        loaded += load(part)
        replayed += replay(part)
    return Headroom(steps, loaded / steps, replayed / steps)


def _endless(loader: VideoLoader) -> Iterator[Any]:
    while True:
        try:
            yield from loader
        except EpochsExhaustedError:
            return


def _finish() -> None:
    import torch

    if torch.accelerator.is_available():
        torch.accelerator.synchronize()
