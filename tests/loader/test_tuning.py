"""Choosing workers and prefetch by what samples cost."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.loader.datasets import Numbers
from tests.loader.hashes import clip_contents
from vidload import ClipDataset, VideoLoader
from vidload.errors import ArgumentError
from vidload.loader.tuning import Cost, measure_cost, tune

GIB = 1 << 30
CLIP = Cost(0.1, 0.12, 2 << 20)


@pytest.mark.parametrize(
    ("cost", "cores", "memory", "workers", "prefetch"),
    [
        (CLIP, 8, 64 * GIB, 7, 2),
        (CLIP, 2, 64 * GIB, 2, 2),
        (CLIP, 1, 64 * GIB, 1, 2),
        (CLIP, 64, 4 * GIB, 3, 2),  # memory for no more
        (Cost(0.0001, 0.0002, 100), 8, 64 * GIB, 1, 2),  # quick
        (Cost(0.1, 1.2, 2 << 20), 16, 64 * GIB, 15, 23),  # some take twelve times as long
        (Cost(0.1, 1.2, 200 << 20), 16, 64 * GIB, 8, 5),  # and are large
    ],
)
def test_the_choice_follows_cores_memory_and_cost(
    cost: Cost, cores: int, memory: int, workers: int, prefetch: int
) -> None:
    found = tune(cost, 8, None, None, cores=cores, memory=memory)
    assert (found.num_workers, found.prefetch_batches) == (workers, prefetch), found.reason
    assert f"num_workers={workers} (" in found.reason
    assert f"prefetch_batches={prefetch} (" in found.reason


def test_what_is_given_is_kept() -> None:
    assert tune(CLIP, 8, 5, None, cores=2, memory=GIB).num_workers == 5
    assert tune(CLIP, 8, None, 9, cores=2, memory=64 * GIB).prefetch_batches == 9


def test_clips_are_measured(clips: ClipDataset) -> None:
    cost = measure_cost(clips, 0)
    assert 0 < cost.mean <= cost.largest
    assert 4 * 16 * 32 * 3 <= cost.size < 4 * 16 * 32 * 3 + 200  # and times


def test_samples_that_fail_are_left_to_the_run() -> None:
    class Failing(Numbers):
        def __getitem__(self, sample: int) -> Any:
            raise OSError("not now")

    assert measure_cost(Failing(9), 0) == Cost(0.0, 0.0, 0)


def test_a_loader_says_what_was_chosen_and_gives_the_same_batches(
    clips: ClipDataset, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "vidload")
    with VideoLoader(clips, 4, epochs=1, shuffle=True, num_workers="auto", prefetch_batches="auto") as loader:
        chosen = [content for batch in loader for content in clip_contents(batch)]
        assert loader.num_workers >= 1
        assert loader.prefetch_batches >= 1
        assert loader.tuning is not None
        assert loader.tuning in caplog.text
    with VideoLoader(clips, 4, epochs=1, shuffle=True, num_workers=0) as loader:
        assert [content for batch in loader for content in clip_contents(batch)] == chosen
        assert loader.tuning is None


@pytest.mark.parametrize("name", ["num_workers", "prefetch_batches"])
def test_another_word_is_refused(name: str) -> None:
    arguments: dict[str, Any] = {name: "many"}
    with pytest.raises(ArgumentError, match=rf"{name}='many'"):
        VideoLoader(Numbers(4), **arguments)
