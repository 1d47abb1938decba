"""Traces for Chrome and Perfetto."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Numbers
from vidload import ClipDataset, VideoLoader
from vidload.errors import ArgumentError

KINDS: list[dict[str, Any]] = [
    {"num_workers": 0},
    {"num_workers": 2, "worker_kind": "thread"},
    {"num_workers": 2, "worker_kind": "process"},
]


@pytest.mark.parametrize("kind", KINDS, ids=["inline", "thread", "process"])
def test_every_span_of_all_workers_is_in_it(kind: dict[str, Any], clips: ClipDataset, tmp_path: Path) -> None:
    with VideoLoader(clips, 4, epochs=2, rank=1, world_size=2, **kind) as loader:
        loader.trace(tmp_path / "run.json")
        for _ in range(2):
            for _ in loader:
                pass
        counts = {name: stage["count"] for name, stage in loader.stats()["stages"].items()}
    events = json.loads((tmp_path / "run.json").read_text())
    spans = [event for event in events if event["ph"] == "X"]
    assert {event["pid"] for event in events} == {1}
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names[0] == "training"
    assert {names[event["tid"]] for event in spans} == set(names.values())
    found: dict[str, int] = {}
    for event in spans:
        found[event["name"]] = found.get(event["name"], 0) + 1
        assert event["dur"] >= 0
        assert event["args"]["epoch"] in (0, 1)
        assert (event["name"] == "wait") == (event["tid"] == 0)
    assert found["wait"] == counts["wait"]
    # Loading began with the loader, a moment before the trace.
    assert counts["read"] - 4 <= found["read"] <= counts["read"]
    first, last = min(event["ts"] for event in spans), max(event["ts"] + event["dur"] for event in spans)
    assert 0 < last - first < 60e6


def test_it_ends_with_the_loader_that_is_let_go_of(tmp_path: Path) -> None:
    loader = VideoLoader(Numbers(4), num_workers=1, worker_kind="thread")
    loader.trace(tmp_path / "run.json")
    next(iter(loader))
    loader.close()
    loader.close()
    assert json.loads((tmp_path / "run.json").read_text())


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with VideoLoader(Numbers(4), num_workers=0) as loader, pytest.raises(ArgumentError, match=r"no/run.json: No such"):
        loader.trace(tmp_path / "no" / "run.json")
