"""What a loader has done so far: counted, and timed by its spans."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from vidload.loader.span import Span

__all__ = ["Stats"]

_PER_OCTAVE = 8
"""Buckets of durations from one to twice of it: percentiles are exact to 9 %."""

_SHORTEST = 1e-7

COUNTS = ("batches", "samples", "errors", "replaced", "restarts", "fallbacks")
"""Batches made, samples in them, samples that couldn't be loaded, those replaced by others, workers that were replaced,
clips that a CPU backend decoded in place of the device."""


class Stats:
    """Counts and times. Each name is written by one thread; all may be read by any.

    Args:
        forward: Called with every span, too; None for nobody.
        clock: Seconds.
    """

    def __init__(
        self, forward: Callable[[Span], None] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._forward = forward
        self._clock = clock
        self._started = clock()
        self._counts = dict.fromkeys(COUNTS, 0)
        self._stages: dict[str, _Durations] = {}

    def count(self, name: str, number: int = 1) -> None:
        """Add to a count."""
        self._counts[name] += number

    def observe(self, span: Span) -> None:
        """Take a span in."""
        stage = self._stages.get(span.kind)
        if stage is None:
            stage = self._stages[span.kind] = _Durations()
        stage.add(span.end - span.start)
        if self._forward is not None:
            self._forward(span)

    def summary(self) -> dict[str, Any]:
        """Plain values: ``seconds`` since the start, the counts, and for each stage what `_Durations.summary` gives."""
        return {
            "seconds": self._clock() - self._started,
            **self._counts,
            "stages": {kind: stage.summary() for kind, stage in list(self._stages.items())},
        }


class _Durations:
    """Many durations in little memory: their count, sum and largest, and how many are about how long."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.largest = 0.0
        self._buckets: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        self.count += 1
        self.total += seconds
        self.largest = max(self.largest, seconds)
        self._buckets[math.floor(math.log2(max(seconds, _SHORTEST)) * _PER_OCTAVE)] += 1

    def summary(self) -> dict[str, float]:
        """``count``, and seconds: ``total``, ``p50``, ``p95``, ``p99``, ``max``."""
        shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
        return {
            "count": self.count,
            "total": self.total,
            **{name: self._percentile(share) for name, share in shares.items()},
            "max": self.largest,
        }

    def _percentile(self, share: float) -> float:
        buckets = sorted(self._buckets.copy().items())
        wanted, seen = share * sum(number for _, number in buckets), 0
        for bucket, number in buckets:
            seen += number
            if seen >= wanted:
                return float(min(2 ** ((bucket + 0.5) / _PER_OCTAVE), self.largest))
        return 0.0
