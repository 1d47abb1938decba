"""Workers that are killed, crash or hang, and such as can't start: real processes and real signals.

`contents` are hashes of whole runs: a run with a fault has to give what one without gives.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.loader import faulty
from tests.loader.faulty import (
    Arrays,
    Fate,
    FatefulClips,
    FatefulStack,
    LoadedBy,
    Plain,
    WaitFor,
    contents,
    ready,
    stack,
    wait_until,
)
from tests.loader.processes import children, loader_threads
from vidload import ClipDataset, RandomResizedCrop, VideoLoader
from vidload.errors import LoaderClosedError, WorkerError

LOST = {"killed": faulty.die, "crashed": faulty.crash, "hung": faulty.hang, "stopped": faulty.stop}
COUNT, BATCH, EPOCHS = 12, 3, 2


def kill(processes: set[int]) -> None:
    for process in processes:
        os.kill(process, signal.SIGKILL)


def all_replaced(before: set[int]) -> bool:
    now = children()
    return len(now) == len(before) and not now & before


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    gc.collect()
    before = children()
    faulty.RELEASED.clear()
    yield
    faulty.RELEASED.set()
    gc.collect()
    wait_until(lambda: children() <= before and not loader_threads())


def arrays(fate: Fate | None = None, **arguments: Any) -> VideoLoader:
    arguments = {"num_workers": 2, "collate_fn": stack} | arguments
    return VideoLoader(Arrays(COUNT, fate), BATCH, shuffle=True, epochs=EPOCHS, seed=3, **arguments)


def films(index: Path, fate: Fate | None = None, **arguments: Any) -> VideoLoader:
    sampler = FatefulClips(num_frames=4, stride=2, clips_per_video=COUNT // 2, fate=fate)
    dataset = ClipDataset(index, sampler, RandomResizedCrop((16, 32)), "pyav")
    return VideoLoader(dataset, BATCH, shuffle=True, epochs=EPOCHS, seed=3, **arguments)


@pytest.fixture(scope="module")
def arrays_contents() -> list[str]:
    with arrays() as loader:
        return contents(loader, EPOCHS)


@pytest.fixture(scope="module")
def films_contents(index_path: Path) -> list[str]:
    with films(index_path, num_workers=0) as loader:
        return contents(loader, EPOCHS)


# Lost over a sample


@pytest.mark.parametrize("how", LOST)
def test_a_worker_lost_over_a_sample_changes_no_batch(how: str, tmp_path: Path, arrays_contents: list[str]) -> None:
    fate = Fate((5,), LOST[how], tmp_path, times=1)
    with arrays(fate, clip_timeout=1 if how in ("hung", "stopped") else None) as loader:
        assert contents(loader, EPOCHS) == arrays_contents
    assert fate.met(5) == EPOCHS + 1  # once in each epoch, and once more


@pytest.mark.parametrize("how", LOST)
def test_a_worker_lost_over_a_clip_changes_no_batch(
    how: str, tmp_path: Path, index_path: Path, films_contents: list[str]
) -> None:
    clip = (1, 2)
    fate = Fate((clip,), LOST[how], tmp_path, times=1)
    with films(index_path, fate, clip_timeout=1 if how in ("hung", "stopped") else None) as loader:
        assert contents(loader, EPOCHS) == films_contents
    assert fate.met(clip) == EPOCHS + 1


def test_a_thread_that_hangs_changes_no_batch(tmp_path: Path, index_path: Path, films_contents: list[str]) -> None:
    clip = (1, 2)
    fate = Fate((clip,), faulty.hang, tmp_path, times=1)
    with films(index_path, fate, worker_kind="thread", clip_timeout=1) as loader:
        assert contents(loader, EPOCHS) == films_contents
        wait_until(lambda: len(loader_threads()) == 1)  # it hangs still, the others are done
    assert fate.met(clip) == EPOCHS + 1


def test_a_thread_that_is_given_up_writes_into_no_later_batch(
    tmp_path: Path, index_path: Path, films_contents: list[str]
) -> None:
    fate = Fate(((0, 0),), faulty.hang, tmp_path, times=1)
    with films(index_path, fate, num_workers=1, worker_kind="thread", clip_timeout=1, prefetch_batches=1) as loader:
        got = [faulty.digest(batch) for batch in loader]
        kept = list(loader)  # one of them lies where the thread that hangs was told to write
        faulty.RELEASED.set()
        wait_until(lambda: not loader_threads())
        assert got + [faulty.digest(batch) for batch in kept] == films_contents


@pytest.mark.parametrize("worker_kind", ["process", "thread"])
def test_a_sample_that_two_workers_are_lost_over_is_an_error(worker_kind: Any, tmp_path: Path) -> None:
    fate = Fate((4,), faulty.hang, tmp_path, times=2)
    with VideoLoader(
        Plain(9, fate), 3, collate_fn=list, worker_kind=worker_kind, clip_timeout=1, epochs=2, prefetch_batches=1
    ) as loader:
        iterator = iter(loader)
        assert next(iterator) == [0, 1, 2]
        with pytest.raises(
            WorkerError,
            match=r"worker \d took longer than clip_timeout=1 s, at step 1 of epoch 0, sample 4; another worker was",
        ):
            next(iterator)
        assert list(loader) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


@pytest.mark.parametrize(("how", "name"), [("killed", "SIGKILL"), ("crashed", "SIGSEGV")])
def test_the_error_names_signal_process_and_clip(how: str, name: str, tmp_path: Path, index_path: Path) -> None:
    sampler = FatefulClips(num_frames=4, clips_per_video=2, fate=Fate(((1, 0),), LOST[how], tmp_path, times=2))
    dataset = ClipDataset(index_path, sampler, 16, "pyav")
    with VideoLoader(dataset, 2, epochs=2) as loader:
        iterator = iter(loader)
        assert next(iterator).sample.tolist() == [0, 1]
        with pytest.raises(WorkerError) as caught:
            next(iterator)
        assert [batch.sample.tolist() for batch in loader] == [[0, 1], [2, 3]]
    assert f"was ended by {name}" in str(caught.value)
    assert "(pid " in str(caught.value)
    assert f"at step 1 of epoch 0, sample 2 (clip 0 of {dataset.index[1].path})" in str(caught.value)


def test_a_worker_that_ends_itself_is_replaced(tmp_path: Path, arrays_contents: list[str]) -> None:
    with arrays(Fate((5,), faulty.exit_at_once, tmp_path, times=1)) as loader:
        assert contents(loader, EPOCHS) == arrays_contents


def test_many_samples_lose_their_workers(tmp_path: Path, arrays_contents: list[str]) -> None:
    fate = Fate((0, 4, 5, 7, 11), faulty.die, tmp_path, times=1)
    with arrays(fate, num_workers=3) as loader:
        assert contents(loader, EPOCHS) == arrays_contents
    assert sum(map(fate.met, fate.at)) == len(fate.at) * (EPOCHS + 1)


# Lost in collating


def test_a_worker_lost_over_collating_changes_no_batch(tmp_path: Path, arrays_contents: list[str]) -> None:
    fate = Fate(tuple(range(COUNT)), faulty.die, tmp_path, times=1)
    with arrays(collate_fn=FatefulStack(fate), num_workers=3) as loader:
        assert contents(loader, EPOCHS) == arrays_contents
    assert len(list(tmp_path.iterdir())) > len(arrays_contents)


def test_a_batch_that_kills_whoever_collates_it_is_an_error(tmp_path: Path) -> None:
    collate = FatefulStack(Fate((3,), faulty.die, tmp_path, times=2))
    with VideoLoader(Arrays(9), 3, collate_fn=collate, epochs=2, on_error="replace", error_log=None) as loader:
        iterator = iter(loader)
        next(iterator)
        with pytest.raises(WorkerError, match=r"SIGKILL.* at step 1 of epoch 0, collating the batch"):
            next(iterator)
        assert [batch["sample"].tolist() for batch in loader] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


# Killed from outside


@pytest.mark.parametrize("seed", range(3))
def test_workers_killed_at_any_moment_change_no_batch(seed: int, index_path: Path, films_contents: list[str]) -> None:
    draw, killed = random.Random(seed), 0
    with films(index_path, num_workers=3, prefetch_batches=1) as loader:
        got, kept = [], []
        for _ in range(EPOCHS):
            for batch in loader:
                kept.append(batch)
                got.append(faulty.digest(batch))
                # Far enough from the last one that no sample is met twice.
                if len(got) % 3 == 1:
                    kill({draw.choice(sorted(children()))})
                    killed += 1
        assert got == [faulty.digest(batch) for batch in kept] == films_contents
    assert killed >= 2


def test_all_workers_killed_at_once_change_no_batch(arrays_contents: list[str]) -> None:
    with arrays(num_workers=3) as loader:
        got = []
        for epoch in range(EPOCHS):
            for step, batch in enumerate(loader):
                got.append(faulty.digest(batch))
                if (epoch, step) == (0, 0):
                    kill(children())
        assert got == arrays_contents


def test_all_workers_killed_before_any_is_ready_are_replaced(tmp_path: Path) -> None:
    gate, marks = tmp_path / "gate", tmp_path / "marks"
    marks.mkdir()
    with VideoLoader(LoadedBy(8, None, WaitFor(gate), marks), 4, collate_fn=list, num_workers=4) as loader:
        for loads in (4, 8):
            wait_until(lambda loads=loads: faulty.Marks(marks).count("load") == loads)  # type: ignore[misc]
            first = children()
            assert len(first) == 4
            kill(first)
            wait_until(lambda first=first: all_replaced(first))  # type: ignore[misc]
        gate.touch()
        assert list(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_workers_killed_between_epochs_are_replaced(arrays_contents: list[str]) -> None:
    with arrays(prefetch_batches=2) as loader:
        got = [faulty.digest(batch) for batch in loader]
        wait_until(lambda: ready(loader) == 2)
        idle = children()
        assert len(idle) == 2
        kill(idle)
        wait_until(lambda: all_replaced(idle))
        got += [faulty.digest(batch) for batch in loader]
        assert got == arrays_contents


def test_workers_stopped_between_epochs_are_found_when_they_are_needed(arrays_contents: list[str]) -> None:
    with arrays(prefetch_batches=2, clip_timeout=1) as loader:
        got = [faulty.digest(batch) for batch in loader]
        wait_until(lambda: ready(loader) == 2)
        for process in children():
            os.kill(process, signal.SIGSTOP)
        got += [faulty.digest(batch) for batch in loader]
        assert got == arrays_contents


@pytest.mark.parametrize("when", ["before", "during"])
def test_workers_killed_at_the_end_hinder_nothing(when: str, tmp_path: Path) -> None:
    fate = Fate(tuple(range(20)), faulty.hang, tmp_path)
    loader = VideoLoader(Plain(20, fate), 4, collate_fn=list, num_workers=3)
    wait_until(lambda: len(list(tmp_path.iterdir())) >= 3)
    workers = children()
    assert len(workers) == 3
    if when == "before":
        kill(workers)
        loader.close()
    else:
        closing = threading.Thread(target=loader.close)
        closing.start()
        wait_until(lambda: loader._pipeline._closed)
        kill(workers)
        closing.join(5)
        assert not closing.is_alive()
    assert not children()
    with pytest.raises(LoaderClosedError):
        iter(loader)


def test_a_worker_is_replaced_while_the_loader_is_closed_over_and_over(tmp_path: Path) -> None:
    fate = Fate(tuple(range(8)), faulty.die, tmp_path)
    for deaths in range(1, 5):
        loader = VideoLoader(Plain(8, fate), 2, collate_fn=list, num_workers=2)
        wait_until(lambda deaths=deaths: len(list(tmp_path.iterdir())) >= deaths)  # type: ignore[misc]
        loader.close()
        assert not children()


# Workers that can't start


def assert_ends(loader: VideoLoader, match: str) -> None:
    """The run ends with an error, again if it is asked again, and leaves no process."""
    start = time.monotonic()
    for _ in range(2):
        with pytest.raises(WorkerError, match=match):
            next(iter(loader))
    assert time.monotonic() - start < 15
    wait_until(lambda: not children())
    loader.close()


def test_an_error_in_loading_the_data_set_ends_the_run(tmp_path: Path) -> None:
    loader = VideoLoader(LoadedBy(4, None, faulty.fail, tmp_path), num_workers=2)
    assert_ends(loader, r"can't load the data set: ValueError: out of luck\n(.*\n)*.*faulty.py")
    assert 1 <= faulty.Marks(tmp_path).count("load") <= 2


@pytest.mark.parametrize(("load", "how"), [(faulty.exit_at_once, "ended with status 3"), (faulty.die, "SIGKILL")])
def test_a_data_set_that_kills_workers_when_it_is_loaded_ends_the_run(
    load: faulty.Fault, how: str, tmp_path: Path
) -> None:
    loader = VideoLoader(LoadedBy(4, None, load, tmp_path), num_workers=2)
    assert_ends(loader, rf"worker process \d \(pid \d+\) .*{how}.* before it had loaded the data set, as did 2 in its")
    assert faulty.Marks(tmp_path).count("load") <= 6


@pytest.mark.parametrize("worker_kind", ["process", "thread"])
def test_an_error_in_worker_init_fn_ends_the_run(worker_kind: Any, tmp_path: Path) -> None:
    def init(worker: int) -> None:
        faulty.Marks(tmp_path).add("init")
        raise LookupError(f"no camera for {worker}")

    loader = VideoLoader(Plain(4), num_workers=2, worker_kind=worker_kind, worker_init_fn=init)
    assert_ends(loader, r"worker_init_fn raised LookupError: 'no camera for \d'|no camera for \d")
    assert faulty.Marks(tmp_path).count("init") <= 2


@pytest.mark.parametrize("worker_kind", ["process", "thread"])
def test_a_worker_init_fn_that_ends_its_worker_ends_the_run(worker_kind: Any, tmp_path: Path) -> None:
    def init(worker: int) -> None:
        faulty.Marks(tmp_path).add("init")
        raise SystemExit(4)

    loader = VideoLoader(Plain(4), num_workers=2, worker_kind=worker_kind, worker_init_fn=init)
    assert_ends(loader, "before it had loaded the data set")
    assert faulty.Marks(tmp_path).count("init") <= 6
