"""Counts and times of a loader."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.loader import faulty
from tests.loader.datasets import Numbers
from tests.loader.faulty import Fate, Plain
from vidload import ClipDataset, VideoLoader
from vidload.loader.span import Span
from vidload.loader.stats import Stats

KINDS: list[dict[str, Any]] = [
    {"num_workers": 0},
    {"num_workers": 2, "worker_kind": "thread"},
    {"num_workers": 2, "worker_kind": "process"},
]

every_kind = pytest.mark.parametrize("kind", KINDS, ids=["inline", "thread", "process"])


@every_kind
def test_clips_are_counted_and_timed(kind: dict[str, Any], clips: ClipDataset) -> None:
    with VideoLoader(clips, 4, epochs=2, **kind) as loader:
        for _ in range(2):
            for _ in loader:
                pass
        stats = loader.stats()
    assert json.loads(json.dumps(stats)) == stats
    assert (stats["batches"], stats["samples"]) == (6, 20)
    assert (stats["errors"], stats["replaced"], stats["restarts"], stats["fallbacks"]) == (0, 0, 0, 0)
    counts = {name: stage["count"] for name, stage in stats["stages"].items()}
    assert counts == {"read": 20, "decode": 20, "convert": 20, "wait": 6}
    assert stats["wanted"] == 80
    assert 0 < stats["leading"] < stats["packets"]
    assert stats["dropped"] > 0
    assert stats["bytes"] > 1000
    assert stats["opened"] + stats["reused"] >= 20
    assert 0 <= stats["starved"] <= 1
    assert 0 <= stats["backpressure"] <= 1
    assert stats["advice"]
    for stage in stats["stages"].values():
        assert (
            0 < stage["p50"] <= stage["p95"] <= stage["p99"] <= stage["max"] <= stage["total"] <= stats["seconds"] * 2
        )


@every_kind
def test_faults_are_counted(kind: dict[str, Any], tmp_path: Path) -> None:
    dataset = Plain(8, Fate((3, 5), faulty.fail, tmp_path))
    with VideoLoader(
        dataset, 2, collate_fn=list, on_error="replace", max_error_rate=1, error_log=None, epochs=1, **kind
    ) as loader:
        list(loader)
        stats = loader.stats()
    assert stats["errors"] >= 2
    assert stats["replaced"] == stats["errors"]
    assert stats["samples"] == 8


def test_restarts_are_counted(tmp_path: Path) -> None:
    dataset = Plain(8, Fate((3,), faulty.die, tmp_path, times=1))
    with VideoLoader(dataset, 2, collate_fn=list, epochs=1, num_workers=2) as loader:
        list(loader)
        stats = loader.stats()
    assert (stats["restarts"], stats["errors"], stats["samples"]) == (1, 0, 8)


def test_percentiles_are_near() -> None:
    stats, source = Stats(), random.Random(1)
    durations = sorted(source.lognormvariate(-5, 2) for _ in range(5000))
    for seconds in durations:
        stats.observe(Span("read", 0, 0, 0, 10.0, 10.0 + seconds))
    stage = stats.summary()["stages"]["read"]
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        assert stage[name] == pytest.approx(durations[int(share * len(durations))], rel=0.1)
    assert stage["max"] == pytest.approx(durations[-1])
    assert stage["total"] == pytest.approx(sum(durations))


def test_a_span_of_no_length_is_one_too() -> None:
    stats = Stats()
    stats.observe(Span("read", 0, 0, 0, 1.0, 1.0))
    assert stats.summary()["stages"]["read"]["count"] == 1


def test_a_loader_that_did_nothing_has_done_nothing() -> None:
    with VideoLoader(Numbers(4), num_workers=0) as loader:
        stats = loader.stats()
    assert stats["stages"] == {}
    assert stats["batches"] == 0
