"""Any map-style data set gives what DataLoader gives of it."""

from __future__ import annotations

import os
import threading
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, TensorDataset

from tests.loader.datasets import Mapped, Numbers
from vidload import VideoLoader

KINDS = [(0, "thread"), (2, "thread"), (1, "process")]
Pair = namedtuple("Pair", ["image", "label"])


class Everything(NamedTuple):
    number: int
    real: float
    text: str
    nested: dict[str, Any]
    arrays: list[Any]


def everything(sample: int) -> Everything:
    """A sample of all that default_collate takes."""
    random = np.random.default_rng(sample)
    floats = torch.from_numpy(random.random((3, 7)))
    large = torch.from_numpy(random.random((70, 90)))
    types = (torch.bfloat16, torch.float16, torch.float32, torch.complex64, torch.int8, torch.bool)
    return Everything(
        number=sample,
        real=sample / 7,
        text=f"sample {sample} ü",
        nested={
            "types": [floats.to(dtype) for dtype in types],
            "large": [large.to(dtype) for dtype in types],
            "point": Pair(torch.tensor(sample), sample % 2 == 0),
            "bytes": bytes([sample]),
        },
        arrays=[
            random.random((100, 50)),  # more than 16 kB
            random.integers(0, 9, 4),
            np.asfortranarray(random.random((60, 70))),
            np.float32(sample),
            floats.t()[::2],
            torch.empty(0, 4),
            torch.ones(2, requires_grad=True),
        ],
    )


def assert_same(one: Any, two: Any) -> None:
    assert type(one) is type(two)
    if isinstance(one, torch.Tensor):
        assert one.dtype == two.dtype
        assert one.requires_grad == two.requires_grad
        assert torch.equal(one, two)
    elif isinstance(one, dict):
        assert one.keys() == two.keys()
        for key in one:
            assert_same(one[key], two[key])
    elif isinstance(one, (tuple, list)):
        assert len(one) == len(two)
        for left, right in zip(one, two, strict=True):
            assert_same(left, right)
    else:
        assert one == two


@pytest.mark.parametrize(("num_workers", "worker_kind"), KINDS)
def test_batches_are_those_of_dataloader(num_workers: int, worker_kind: Any) -> None:
    dataset = Mapped(10, everything)
    with VideoLoader(dataset, 4, num_workers=num_workers, worker_kind=worker_kind, epochs=1) as loader:
        got = list(loader)
    for batch, wanted in zip(got, DataLoader(dataset, 4), strict=True):
        assert_same(batch, wanted)


def test_the_ten_integers_of_the_forum_thread() -> None:
    with VideoLoader(Numbers(10), num_workers=2, worker_kind="thread", epochs=2) as loader:
        for _ in range(2):
            assert [batch.tolist() for batch in loader] == [[number] for number in range(10)]


class Squares(Dataset[Any]):
    """As tutorials write them: a class of the script, with state."""

    def __init__(self) -> None:
        self.table = torch.arange(10) ** 2

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, sample: int) -> Any:
        return {"square": self.table[sample], "name": str(sample)}


@pytest.mark.parametrize(
    "dataset",
    [
        Squares(),
        TensorDataset(torch.arange(6), torch.rand(6, 3)),
        ConcatDataset([Squares(), Squares()]),
        [1.5, 2.5],
        "letters",
    ],
    ids=lambda dataset: type(dataset).__name__,
)
def test_all_that_has_a_length_and_items_is_a_data_set(dataset: Any) -> None:
    with VideoLoader(dataset, 2, num_workers=2, worker_kind="thread", epochs=1) as loader:
        for batch, wanted in zip(loader, DataLoader(dataset, 2), strict=True):
            assert_same(batch, wanted)


def padded(samples: list[Any]) -> Any:
    return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True)


@pytest.mark.parametrize(("num_workers", "worker_kind"), KINDS)
def test_variable_shapes_with_a_collate_fn_even_a_lambda(num_workers: int, worker_kind: Any) -> None:
    factor = 3  # a closure
    dataset = Mapped(5, lambda sample: torch.full((sample * 5_000 + 1,), sample))
    with VideoLoader(
        dataset,
        2,
        num_workers=num_workers,
        worker_kind=worker_kind,
        epochs=1,
        collate_fn=lambda samples: (padded(samples) * factor, len(samples)),
    ) as loader:
        got = list(loader)
    assert [(tuple(batch.shape), count) for batch, count in got] == [
        ((2, 5_001), 2),
        ((2, 15_001), 2),
        ((1, 20_001), 1),
    ]
    assert got[1][0][:, -1].tolist() == [0, 9]


@pytest.mark.parametrize(("num_workers", "worker_kind"), KINDS)
def test_collate_fn_runs_in_a_worker_that_completes_the_batch(num_workers: int, worker_kind: Any) -> None:
    def where(samples: list[int]) -> tuple[int, int]:
        return os.getpid(), threading.get_ident()

    with VideoLoader(
        Numbers(4), 2, num_workers=num_workers, worker_kind=worker_kind, epochs=1, collate_fn=where
    ) as loader:
        for process, thread in loader:
            assert (process == os.getpid()) == (worker_kind == "thread")
            assert ((process, thread) == (os.getpid(), threading.get_ident())) == (num_workers == 0)


@pytest.mark.parametrize("size", [10, 100_000])
def test_samples_are_the_collate_fns_to_keep(size: int) -> None:
    """What a collate function holds back isn't overwritten when the slot is used again."""

    class Keeps:
        def __init__(self) -> None:
            self.kept: list[Any] = []

        def __call__(self, samples: list[Any]) -> Any:
            self.kept += samples
            return [(int(sample[0]), int(sample[-1]), sample.flags.writeable) for sample in self.kept]

    dataset = Mapped(12, lambda sample: np.full(size, sample))
    with VideoLoader(dataset, 2, num_workers=1, epochs=1, collate_fn=Keeps()) as loader:
        *_, last = loader
    assert last == [(number, number, True) for number in range(12)]


def test_batches_share_no_memory() -> None:
    dataset = Mapped(4, lambda sample: np.full(50_000, sample))
    with VideoLoader(dataset, 1, num_workers=1, epochs=2, collate_fn=np.stack) as loader:
        batches = [batch for _ in range(2) for batch in loader]
    for number, batch in enumerate(batches):
        batch += 100 * number
    assert [int(batch[0, 7]) for batch in batches] == [0, 101, 202, 303, 400, 501, 602, 703]


def test_objects_of_any_kind_with_a_collate_fn() -> None:
    class Anything:
        def __init__(self, sample: int) -> None:
            self.sample = sample
            self.again = self  # a cycle

    with VideoLoader(Mapped(3, Anything), 3, num_workers=1, epochs=1, collate_fn=list) as loader:
        (batch,) = loader
    assert [value.sample for value in batch] == [0, 1, 2]
    assert all(value.again is value for value in batch)


def test_a_data_set_keeps_its_state_in_its_worker() -> None:
    class Counts(Numbers):
        calls = 0

        def __getitem__(self, sample: int) -> int:
            self.calls += 1
            return self.calls

    with VideoLoader(Counts(6), 2, num_workers=1, epochs=2, collate_fn=list) as loader:
        assert [list(loader), list(loader)] == [[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]]
