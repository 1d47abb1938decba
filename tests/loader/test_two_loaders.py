"""Two loaders in turn, as for training and validation: each loads ahead over the other's epoch, within its bounds."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Logged
from tests.loader.faulty import contents, digest, ready, wait_until
from tests.loader.processes import children
from vidload import ClipDataset, RandomClips, UniformClips, VideoLoader

DEPTH = 2


@pytest.fixture
def logged(tmp_path: Path) -> Callable[[str, int], Logged]:
    def make(name: str, count: int) -> Logged:
        (tmp_path / name).touch()
        return Logged(count, tmp_path / name)

    return make


def loader_of(dataset: Any, worker_kind: Any = "process", **arguments: Any) -> VideoLoader:
    arguments = {"num_workers": 1, "prefetch_batches": DEPTH, "collate_fn": list} | arguments
    return VideoLoader(dataset, 2, worker_kind=worker_kind, **arguments)


@pytest.mark.parametrize("worker_kind", ["process", "thread"])
def test_each_loads_its_next_epoch_over_the_others(worker_kind: Any, logged: Callable[[str, int], Logged]) -> None:
    train_set, val_set = logged("train", 6), logged("val", 4)
    with loader_of(train_set, worker_kind) as train, loader_of(val_set, worker_kind) as val:
        for epoch in range(1, 4):
            for loader, dataset in ((train, train_set), (val, val_set)):
                count = dataset.count
                assert list(loader) == [[n, n + 1] for n in range(0, count, 2)]
                # Of the epoch that comes after the other loader's, its first batches, and no more than that.
                wait_until(lambda loader=loader: ready(loader) == DEPTH)  # type: ignore[misc]
                ahead = [*list(range(count)) * epoch, *list(range(count))[: 2 * DEPTH]]
                assert dataset.asked() == ahead


def test_first_batches_of_an_epoch_need_no_worker_any_more(logged: Callable[[str, int], Logged]) -> None:
    before = children()
    with loader_of(logged("train", 6)) as train, loader_of(logged("val", 6)) as val:
        for loader in (train, val):
            assert len(list(loader)) == 3
        for loader in (train, val):
            wait_until(lambda loader=loader: ready(loader) == DEPTH)  # type: ignore[misc]
        workers = children() - before
        assert len(workers) == 2
        for worker in workers:
            os.kill(worker, signal.SIGSTOP)
        for loader in (train, val):
            iterator = iter(loader)
            assert [next(iterator), next(iterator)] == [[0, 1], [2, 3]]
        for worker in workers:
            os.kill(worker, signal.SIGCONT)


def test_alternating_changes_no_batch_and_takes_bounded_memory(index_path: Path) -> None:
    def train_loader(**arguments: Any) -> VideoLoader:
        clips = RandomClips(num_frames=4, clips_per_video=4)
        return loader_of(ClipDataset(index_path, clips, 32, "pyav"), shuffle=True, collate_fn=None, **arguments)

    def val_loader(**arguments: Any) -> VideoLoader:
        clips = UniformClips(num_frames=4, clips_per_video=3)
        return loader_of(ClipDataset(index_path, clips, 32, "pyav"), collate_fn=None, **arguments)

    epochs = 4
    with train_loader(num_workers=0) as train, val_loader(num_workers=0) as val:
        expected = contents(train, epochs), contents(val, epochs)
    slots_before = len(slots())
    got: tuple[list[str], list[str]] = ([], [])
    with train_loader() as train, val_loader() as val:
        for _ in range(epochs):
            for loader, hashes in zip((train, val), got, strict=True):
                for batch in loader:
                    hashes.append(digest(batch))
                    # The batches loaded ahead, the one in use, and the one before it.
                    assert len(slots()) - slots_before <= 2 * (DEPTH + 2)
    assert got == expected


def slots() -> list[str]:
    """Slots that this process has open."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:  # the one of the listing itself
            continue
        if "vidload-slot" in target:
            found.append(target)
    return found
