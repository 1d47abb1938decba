"""What a trace function is told."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest

from tests.loader.datasets import Gated, Numbers
from vidload import ClipDataset, Span, VideoLoader

KINDS = [(0, "thread"), (2, "thread"), (2, "process")]
each_kind = pytest.mark.parametrize(("num_workers", "worker_kind"), KINDS)


@each_kind
def test_every_clip_and_every_wait_is_told(clips: ClipDataset, num_workers: int, worker_kind: Any) -> None:
    spans: list[Span] = []
    with VideoLoader(
        clips, 4, num_workers=num_workers, worker_kind=worker_kind, epochs=2, trace=spans.append
    ) as loader:
        for _ in range(2):
            list(loader)
    told = Counter((span.kind, span.epoch, span.step) for span in spans)
    wanted: Counter[Any] = Counter()
    for epoch in range(2):
        for step, samples in enumerate([4, 4, 2]):
            wanted.update({(kind, epoch, step): samples for kind in ("read", "decode", "convert")})
            wanted["wait", epoch, step] = 1
    assert told == wanted
    by_worker = defaultdict(list)
    for span in spans:
        by_worker[span.worker].append(span)
        assert span.start <= span.end
    assert by_worker.keys() <= {-1, *range(max(1, num_workers))}
    assert {span.kind for span in by_worker[-1]} == {"wait"}
    for worker, own in by_worker.items():
        assert all(one.end <= other.start for one, other in pairwise(own)), worker


@each_kind
def test_samples_and_collating_are_told(num_workers: int, worker_kind: Any) -> None:
    spans: list[Span] = []
    with VideoLoader(
        Numbers(5), 2, num_workers=num_workers, worker_kind=worker_kind, epochs=1, collate_fn=list, trace=spans.append
    ) as loader:
        list(loader)
    assert Counter(span.kind for span in spans) == {"sample": 5, "collate": 3, "wait": 3}


def test_a_wait_begins_when_the_batch_is_asked_for_and_ends_when_it_is_there() -> None:
    dataset = Gated(2)
    spans: list[Span] = []
    with VideoLoader(
        dataset, num_workers=1, worker_kind="thread", collate_fn=list, epochs=1, trace=spans.append
    ) as loader:
        dataset.wait_until_asked(0)
        dataset.open()
        list(loader)
    first = {span.kind: span for span in spans if span.step == 0}
    assert first["sample"].end <= first["collate"].start
    assert first["collate"].end <= first["wait"].end


@each_kind
def test_an_error_in_the_trace_function_reaches_the_consumer(num_workers: int, worker_kind: Any) -> None:
    def trace(span: Span) -> None:
        if span.kind == "collate":
            raise OSError("the disk is full")

    with (
        VideoLoader(
            Numbers(4), 2, num_workers=num_workers, worker_kind=worker_kind, collate_fn=list, trace=trace
        ) as loader,
        pytest.raises(OSError, match="the disk is full"),
    ):
        list(loader)


@each_kind
def test_an_error_in_the_trace_of_a_wait_costs_that_batch_alone(num_workers: int, worker_kind: Any) -> None:
    def trace(span: Span) -> None:
        if span.kind == "wait" and span.step == 1:
            raise OSError("the disk is full")

    with VideoLoader(
        Numbers(4), 1, num_workers=num_workers, worker_kind=worker_kind, collate_fn=list, trace=trace
    ) as loader:
        iterator = iter(loader)
        assert next(iterator) == [0]
        with pytest.raises(OSError, match="the disk is full"):
            next(iterator)
        assert list(iterator) == [[2], [3]]
