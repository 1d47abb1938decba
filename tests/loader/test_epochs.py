"""Loops over a loader: one is one epoch, however it ends, and the next is loaded meanwhile."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.loader.datasets import Gated, Logged, Numbers
from tests.loader.processes import loader_threads
from vidload import ClipDataset, VideoLoader
from vidload.errors import EpochsExhaustedError, LoaderClosedError

KINDS = [(0, "thread"), (2, "thread"), (2, "process")]


def wait_for_the_workers_end() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("vidload"):
            thread.join(10)
    assert not loader_threads()


def numbers(count: int = 6, batch_size: int = 2, **arguments: Any) -> VideoLoader:
    arguments = {"num_workers": 2, "worker_kind": "thread", "collate_fn": list, **arguments}
    return VideoLoader(Numbers(count), batch_size, **arguments)


@pytest.fixture(params=KINDS, ids=str)
def shuffled(request: pytest.FixtureRequest) -> Any:
    """Makes loaders of six numbers whose order tells the epoch, and gives what the epochs are."""
    num_workers, worker_kind = request.param
    with numbers(shuffle=True, num_workers=0) as plain:
        wanted = [list(plain) for _ in range(4)]
    assert wanted[0] != wanted[1] != wanted[2] != wanted[3]
    with numbers(shuffle=True, num_workers=num_workers, worker_kind=worker_kind) as loader:
        yield loader, wanted


def test_the_next_epochs_first_batch_is_loaded_while_this_ones_last_are_used() -> None:
    dataset = Gated(6)
    dataset.open()
    with VideoLoader(dataset, 2, num_workers=2, worker_kind="thread", collate_fn=list, prefetch_batches=2) as loader:
        iterator = iter(loader)
        assert [next(iterator) for _ in range(2)] == [[0, 1], [2, 3]]
        # The last batch isn't taken, and nobody has called iter() again.
        dataset.wait_until_asked(0, times=2)
        dataset.wait_until_asked(1, times=2)
        assert next(iterator) == [4, 5]


@pytest.mark.parametrize(("num_workers", "worker_kind"), KINDS)
@pytest.mark.parametrize("prefetch_batches", [1, 5])
def test_nothing_beyond_the_last_epoch_is_asked_for(
    tmp_path: Path, num_workers: int, worker_kind: Any, prefetch_batches: int
) -> None:
    dataset = Logged(5, tmp_path / "asked")
    loader = VideoLoader(
        dataset,
        2,
        epochs=3,
        num_workers=num_workers,
        worker_kind=worker_kind,
        prefetch_batches=prefetch_batches,
        collate_fn=list,
    )
    for _ in range(3):
        assert list(loader) == [[0, 1], [2, 3], [4]]
    loader.close()  # waits for the workers: nothing can come later
    assert sorted(dataset.asked()) == sorted([*range(5)] * 3)


@pytest.mark.parametrize(("num_workers", "worker_kind"), KINDS[1:])
def test_without_an_end_no_more_than_the_prefetched_batches_are_loaded_in_vain(
    tmp_path: Path, num_workers: int, worker_kind: Any
) -> None:
    dataset = Logged(6, tmp_path / "asked")
    with VideoLoader(
        dataset, 2, num_workers=num_workers, worker_kind=worker_kind, prefetch_batches=2, collate_fn=list
    ) as loader:
        assert len(list(loader)) == 3
    assert 6 <= len(dataset.asked()) <= 6 + 2 * 2


def test_break_is_the_end_of_an_epoch(shuffled: tuple[VideoLoader, list[Any]]) -> None:
    loader, epochs = shuffled
    for batch in loader:
        assert batch == epochs[0][0]
        break
    assert list(loader) == epochs[1]


def test_an_exception_is_the_end_of_an_epoch(shuffled: tuple[VideoLoader, list[Any]]) -> None:
    loader, epochs = shuffled
    errors = []
    for kind in (ValueError, KeyboardInterrupt):
        try:
            for number, _ in enumerate(loader):
                if number:
                    raise kind("in the loop")
        except (ValueError, KeyboardInterrupt) as error:
            errors.append(error)  # its traceback may hold the loop
    assert list(loader) == epochs[2]
    assert len(errors) == 2


def test_an_iterator_may_be_kept_or_dropped(shuffled: tuple[VideoLoader, list[Any]]) -> None:
    loader, epochs = shuffled
    kept = iter(loader)
    assert next(kept) == epochs[0][0]
    dropped = iter(loader)
    assert next(dropped) == epochs[1][0]
    del dropped
    gc.collect()
    assert list(loader) == epochs[2]
    assert next(iter(loader)) == epochs[3][0]


def test_iter_alone_begins_nothing(shuffled: tuple[VideoLoader, list[Any]]) -> None:
    loader, epochs = shuffled
    iter(loader)
    unused = iter(loader)
    assert list(loader) == epochs[0]
    iter(loader)
    assert list(loader) == epochs[1]
    del unused
    assert list(loader) == epochs[2]


def test_a_loop_that_a_later_one_has_ended_says_so() -> None:
    with numbers() as loader:
        first = iter(loader)
        next(first)
        second = iter(loader)
        with pytest.raises(LoaderClosedError, match="loop over epoch 0 was ended by a later one"):
            next(first)
        assert len(list(second)) == 3
        with pytest.raises(LoaderClosedError, match="later one"):
            list(zip(loader, loader, strict=False))


def test_an_iterator_at_its_end_stays_there() -> None:
    with numbers() as loader:
        iterator = iter(loader)
        assert len(list(iterator)) == 3
        for _ in range(2):
            with pytest.raises(StopIteration):
                next(iterator)
        next(iter(loader))
        with pytest.raises(StopIteration):
            next(iterator)


def test_leaving_an_epoch_starts_the_next() -> None:
    dataset = Gated(6)
    dataset.open(0, 1)
    with VideoLoader(dataset, 1, num_workers=1, worker_kind="thread", collate_fn=list, prefetch_batches=2) as loader:
        for _ in loader:
            dataset.wait_until_asked(1)
            break
        dataset.open()
        dataset.wait_until_asked(0, times=2)  # nobody has begun the next loop
        assert dataset.asked.count(5) == 0
        assert len(list(loader)) == 6


def test_leaving_cancels_what_is_not_handed_out() -> None:
    dataset = Gated(100)
    dataset.open(0)
    with VideoLoader(dataset, 10, num_workers=1, worker_kind="thread", collate_fn=list, prefetch_batches=2) as loader:
        dataset.wait_until_asked(1)
        iterator = iter(loader)
        dataset.open(*range(10))
        assert next(iterator) == list(range(10))
        dataset.wait_until_asked(10)  # and waits there
        del iterator
        dataset.open()
        assert len(list(loader)) == 10
    asked = dataset.asked
    assert asked[:11] == list(range(11))
    assert asked[11 : 11 + 100] == list(range(100))


@pytest.mark.parametrize(("num_workers", "worker_kind"), KINDS)
def test_more_epochs_than_there_are(num_workers: int, worker_kind: Any) -> None:
    with numbers(epochs=2, num_workers=num_workers, worker_kind=worker_kind) as loader:
        for _ in range(2):
            assert len(list(loader)) == 3
        for _ in range(2):
            with pytest.raises(EpochsExhaustedError, match=r"made for epochs=2, and has given them all"):
                iter(loader)


def test_a_further_loop_does_not_end_the_last_epoch() -> None:
    with numbers(epochs=1) as loader:
        iterator = iter(loader)
        next(iterator)
        with pytest.raises(EpochsExhaustedError):
            iter(loader)
        assert len(list(iterator)) == 2


def test_the_last_epochs_end_is_the_workers_end() -> None:
    loader = numbers(epochs=1)
    list(loader)
    wait_for_the_workers_end()
    loader.close()


def test_leaving_the_last_epoch_is_the_workers_end() -> None:
    loader = numbers(epochs=1)
    for _ in loader:
        break
    wait_for_the_workers_end()
    loader.close()


def test_two_loaders_by_turns_keep_their_own_epochs() -> None:
    with numbers(8, shuffle=True) as train, numbers(4, shuffle=True) as validate:
        for epoch in range(4):
            for _ in train:
                break
            got = list(validate)
            with numbers(4, shuffle=True, num_workers=0) as plain:
                assert [list(plain) for _ in range(epoch + 1)][-1] == got


def test_len_is_the_steps_of_an_epoch() -> None:
    with numbers(7, 3, num_workers=0) as loader:
        assert len(loader) == len(list(loader)) == 3


def test_epochs_of_clips_are_numbered(clips: ClipDataset) -> None:
    with VideoLoader(clips, 4, num_workers=2, worker_kind="thread") as loader:
        for _ in loader:
            break
        assert [(batch.epoch, batch.step) for batch in loader] == [(1, 0), (1, 1), (1, 2)]
