"""What a loader has done so far: counted, and timed by its spans."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from vidload.decode.backends import DecodeWork
from vidload.loader.advice import advise
from vidload.loader.span import Span

__all__ = ["Stats"]

_PER_OCTAVE = 8
"""Buckets of durations from one to twice of it: percentiles are exact to 9 %."""

_SHORTEST = 1e-7

COUNTS = ("batches", "samples", "errors", "replaced", "restarts", "fallbacks")
"""Batches made, samples in them, samples that couldn't be loaded, those replaced by others, workers that were replaced,
clips that a CPU backend decoded in place of the device."""

WORK = ("bytes", "packets", "wanted", "leading", "dropped", "reused", "opened", "concealed")
"""Of clips: see `vidload.decode.backends.DecodeWork`."""

_BY_WORKERS = ("read", "decode", "convert", "sample", "collate")


class Stats:
    """Counts and times. Each name is written by one thread; all may be read by any.

    Args:
        num_workers: How many workers the loader has; 0 for none.
        clock: Seconds, of the same clock as spans.
    """

    def __init__(self, num_workers: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._num_workers = num_workers
        self._clock = clock
        self._started = clock()
        self._observers: tuple[Callable[[Span], None], ...] = ()
        self._counts = dict.fromkeys((*COUNTS, *WORK), 0)
        self._stages: dict[str, _Durations] = {}
        self._loaded = _Period()
        self._waited = _Period()

    def add_observer(self, observer: Callable[[Span], None]) -> None:
        """Have a function called with every span, too."""
        self._observers = (*self._observers, observer)

    def count(self, name: str, number: int = 1) -> None:
        """Add to a count."""
        self._counts[name] += number

    def count_work(self, work: DecodeWork | None) -> None:
        """Take in what was done for a clip."""
        if work is not None:
            for name in WORK:
                self._counts[name] += getattr(work, name)

    def observe(self, span: Span) -> None:
        """Take a span in."""
        stage = self._stages.get(span.kind)
        if stage is None:
            stage = self._stages[span.kind] = _Durations()
        stage.add(span.end - span.start)
        if span.kind == "wait":
            self._waited.add(span)
        elif span.worker >= 0:
            self._loaded.add(span)
        for observer in self._observers:
            observer(span)

    def summary(self) -> dict[str, Any]:
        """Plain values; see `vidload.VideoLoader.stats`."""
        stages = {kind: stage.summary() for kind, stage in list(self._stages.items())}
        busy = sum(stage["total"] for kind, stage in stages.items() if kind in _BY_WORKERS)
        capacity = self._num_workers * self._loaded.seconds
        found = {
            "seconds": self._clock() - self._started,
            "num_workers": self._num_workers,
            **self._counts,
            # The first wait is for workers to start.
            "first_batch": self._waited.first,
            "starved": _share(self._waited.total - self._waited.first, self._waited.seconds - self._waited.first),
            "backpressure": _share(capacity - busy, capacity),
            "stages": stages,
        }
        return found | {"advice": advise(found)}


class _Period:
    """Spans of one kind, from the first one's beginning to the last one's end."""

    def __init__(self) -> None:
        self.first = 0.0  # the first one's length
        self.total = 0.0
        self._start = math.inf
        self._end = -math.inf

    def add(self, span: Span) -> None:
        if self._start == math.inf:
            self.first = span.end - span.start
        self.total += span.end - span.start
        self._start, self._end = min(self._start, span.start), max(self._end, span.end)

    @property
    def seconds(self) -> float:
        return max(0.0, self._end - self._start)


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


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0
