"""Orders from samplers: those of torch give the batches that torch's DataLoader gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from tests.loader.datasets import Gated, Mapped, Numbers
from vidload import ClipDataset, VideoLoader
from vidload.errors import ArgumentError

NUMBERS = Numbers(11)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


SAMPLERS: dict[str, Callable[[], Any]] = {
    "sequential": lambda: SequentialSampler(NUMBERS),
    "random": lambda: RandomSampler(NUMBERS, generator=generator()),
    "weighted": lambda: WeightedRandomSampler([0.1 * n + 0.1 for n in range(11)], 7, generator=generator()),
    "subset": lambda: SubsetRandomSampler([1, 4, 7, 9], generator=generator()),
    "list": lambda: [5, 3, 3, 0],
}


def load(dataset: Any, *arguments: Any, **keywords: Any) -> VideoLoader:
    keywords = {"num_workers": 2, "worker_kind": "thread", "collate_fn": list} | keywords
    return VideoLoader(dataset, *arguments, **keywords)


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_are_those_of_torchs_loader(name: str, drop_last: bool, num_workers: int) -> None:
    theirs = DataLoader(NUMBERS, 3, sampler=SAMPLERS[name](), drop_last=drop_last, collate_fn=list)
    with load(NUMBERS, 3, sampler=SAMPLERS[name](), drop_last=drop_last, num_workers=num_workers) as ours:
        assert len(ours) == len(theirs)
        for _ in range(4):
            assert list(ours) == list(theirs)


def test_batches_of_a_batch_sampler_are_those_of_torchs_loader() -> None:
    theirs = DataLoader(
        NUMBERS, batch_sampler=BatchSampler(RandomSampler(NUMBERS, generator=generator()), 4, False), collate_fn=list
    )
    batches = BatchSampler(RandomSampler(NUMBERS, generator=generator()), 4, False)
    with load(NUMBERS, batch_sampler=batches) as ours:
        for _ in range(3):
            assert list(ours) == list(theirs)


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("batched", [False, True])
def test_set_epoch_is_called_by_the_loader(rank: int, batched: bool) -> None:
    sampler = DistributedSampler(NUMBERS, num_replicas=2, rank=rank, seed=4)
    order: dict[str, Any] = {"batch_sampler": BatchSampler(sampler, 2, False)} if batched else {"sampler": sampler}
    other = DistributedSampler(NUMBERS, num_replicas=2, rank=rank, seed=4)
    with load(NUMBERS, **order) as ours:
        for epoch in range(3):
            other.set_epoch(epoch)
            assert [n for batch in ours for n in batch] == list(other)


class Recorder:
    """Every other epoch backwards; remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def set_epoch(self, epoch: int) -> None:
        self.calls.append(epoch)

    def __iter__(self) -> Iterator[int]:
        self.calls.append("read")
        return iter([0, 1, 2] if self.calls[-2] % 2 == 0 else [2, 1, 0])

    def __len__(self) -> int:
        return 3


def test_set_epoch_comes_before_an_epoch_is_read_ahead() -> None:
    dataset, sampler = Gated(3), Recorder()
    with load(dataset, sampler=sampler, num_workers=1, prefetch_batches=4) as loader:
        dataset.open()
        iterator = iter(loader)
        assert next(iterator) == [0]
        dataset.wait_until_asked(2, times=2)  # epoch 1 is in the works, while the consumer is in epoch 0
        assert sampler.calls[:4] == [0, "read", 1, "read"]
        assert list(iterator) == [[1], [2]]
        assert list(loader) == [[2], [1], [0]]


class Buckets:
    """Batches of varying size, and another number of them in each epoch."""

    def __init__(self) -> None:
        self.epoch = -1

    def __iter__(self) -> Iterator[list[int]]:
        self.epoch += 1
        return iter([[self.epoch], [1, 2, 3], [4, 5], [6, 7, 8, 9]][: 2 + self.epoch % 3])

    def __len__(self) -> int:
        return 4


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_and_epochs_may_vary(num_workers: int) -> None:
    batches, other = Buckets(), Buckets()
    with load(NUMBERS, batch_sampler=batches, num_workers=num_workers, prefetch_batches=7) as loader:
        for _ in range(5):
            assert list(loader) == list(other)


def test_epochs_shorter_than_what_is_loaded_ahead_go_on_from_a_state() -> None:
    def make() -> VideoLoader:
        return load(Numbers(2), sampler=RandomSampler(Numbers(2), generator=generator()), prefetch_batches=9, epochs=8)

    with make() as loader:
        run = [batch for _ in range(8) for batch in loader]
    with make() as first, make() as second:
        next(iter(first))
        iterator = iter(first)
        taken = [next(iterator)]
        state = first.state_dict()
        second.load_state_dict(state)
        first.load_state_dict(state)  # its scheduler is epochs ahead
        for loader in (first, second):
            got = [*taken]
            while loader.epoch < 8:
                got += list(loader)
            assert got == run[2 * state["epoch"] :]


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("key", [-1, 10**6, "a"])
def test_a_key_that_a_clip_data_set_lacks_is_named(clips: ClipDataset, key: Any, num_workers: int) -> None:
    """Where errors are to be replaced too: it isn't one of a sample."""
    arguments: dict[str, Any] = {"num_workers": num_workers, "on_error": "replace", "error_log": None}
    named = rf"the sampler gives {key!r} in epoch 0, but .* 0 to {len(clips) - 1}"
    with VideoLoader(clips, 1, sampler=[key, 0], **arguments) as loader, pytest.raises(ArgumentError, match=named):
        next(iter(loader))


def test_keys_may_be_anything() -> None:
    class Words(Mapped):
        def __getitem__(self, key: Any) -> Any:
            return self.function(key)

    with load(Words(3, repr), 2, sampler=["a", ("b", 1), None]) as loader:
        assert list(loader) == [["'a'", "('b', 1)"], ["None"]]


def test_clips_of_a_sampler(clips: ClipDataset) -> None:
    with VideoLoader(clips, 2, sampler=[9, 0, 4], num_workers=1) as loader:
        assert [batch.sample.tolist() for batch in loader] == [[9, 0], [4]]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"sampler": [0], "shuffle": True}, "sampler: leave out shuffle"),
        ({"sampler": [0], "batch_sampler": [[0]]}, "batch_sampler: leave out"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "batch_sampler: leave out"),
        ({"batch_sampler": [[0]], "drop_last": True}, "batch_sampler: leave out"),
        ({"batch_sampler": [[0]], "shuffle": True}, "batch_sampler: leave out"),
        ({"sampler": iter([0])}, "sampler=.*iterated again"),
        ({"sampler": 3}, "sampler=3"),
    ],
)
def test_what_contradicts_a_sampler_is_refused(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError, match=named):
        load(NUMBERS, **arguments)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_sampler_without_a_batch_ends_the_run(num_workers: int) -> None:
    loader = load(NUMBERS, 3, sampler=[0], drop_last=True, num_workers=num_workers)
    with loader, pytest.raises(ArgumentError, match="no batch in epoch 0"):
        list(loader)
