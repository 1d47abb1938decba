"""What user code can know of its worker, and what it may draw from."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest
import torch

import vidload
from tests.loader.datasets import Mapped, Numbers
from vidload import VideoLoader


def where(sample: int) -> Any:
    info = vidload.get_worker_info()
    return None if info is None else (info.id, info.num_workers, info.seed, len(info.dataset), os.getpid())


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_a_worker_knows_itself(kind: Any) -> None:
    with VideoLoader(Mapped(20, where), 2, num_workers=2, worker_kind=kind, seed=9, collate_fn=list) as loader:
        seen = {found for batch in loader for found in batch}
    assert {found[0] for found in seen} <= {0, 1}
    assert {found[1:4] for found in seen} == {(2, 9, 20)}
    assert {found[4] == os.getpid() for found in seen} == {kind == "thread"}
    assert vidload.get_worker_info() is None


def test_the_caller_is_no_worker() -> None:
    with VideoLoader(Mapped(2, where), num_workers=0, collate_fn=list) as loader:
        assert list(loader) == [[None], [None]]


class PerWorker(Numbers):
    """Counts what each worker was asked for, from where `worker_init_fn` let it begin."""

    begun = -1
    asked = 0

    def __getitem__(self, sample: int) -> Any:
        self.asked += 1
        return self.begun, self.asked


def begin(worker: int) -> None:
    info = vidload.get_worker_info()
    assert info is not None
    assert info.id == worker
    info.dataset.begun = 100 + worker


def test_a_data_set_keeps_state_in_each_worker_across_epochs() -> None:
    with VideoLoader(PerWorker(8), num_workers=2, worker_init_fn=begin, collate_fn=list) as loader:
        seen = [found for _ in range(2) for batch in loader for found in batch]
        counts = {begun: [count for who, count in seen if who == begun] for begun in (100, 101)}
        assert sum(map(len, counts.values())) == len(seen) == 16
        for count in counts.values():  # each worker's own, never set back
            assert sorted(count) == list(dict.fromkeys(sorted(count)))
        assert loader.dataset.begun == -1


def draw(sample: int) -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def drawing(workers: int, **arguments: Any) -> VideoLoader:
    # torch is known to each worker before its first sample, as it is where a data set's module imports it
    return VideoLoader(
        Mapped(6, draw), 2, epochs=2, num_workers=workers, worker_init_fn=draw, collate_fn=list, **arguments
    )


def test_global_generators_give_each_sample_its_own_numbers_in_processes() -> None:
    with drawing(1) as one, drawing(2, prefetch_batches=5) as two, drawing(1, seed=1) as other:
        runs, states = [], []
        for loader in (one, two, other):
            run = []
            for _ in range(2):
                for batch in loader:
                    run.append(batch)
                    states.append(loader.state_dict())
            runs.append(run)
        assert runs[0] == runs[1]
        assert runs[0] != runs[2]
        assert len({number for batch in runs[0] for drawn in batch for number in drawn}) == 36
        one.load_state_dict(states[1])
        assert [batch for _ in range(2) for batch in one] == runs[0][2:]
