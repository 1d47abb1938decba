"""Workers of both kinds do what the scheduler asks of them."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from tests.loader.datasets import Gated, Mapped, Numbers, Signalled
from tests.loader.processes import children, loader_threads, open_files
from vidload.errors import SampleError
from vidload.loader.messages import CollateTask, Done, Failed, Ready, SampleTask
from vidload.loader.parcel import ROW_BYTES, Parcel, open_mapped
from vidload.loader.pool import Event, Pool
from vidload.loader.processes import ProcessPool
from vidload.loader.ring import Slot
from vidload.loader.runner import Runner
from vidload.loader.threads import ThreadPool


def make(kind: str, dataset: Any, size: int = 2) -> Pool:
    runner = Runner(dataset, list)
    pool: Pool = ThreadPool(runner, size) if kind == "thread" else ProcessPool(cloudpickle.dumps(runner), size)
    pool.start()
    if kind == "process":
        pool.attach(Slot(0, 4 * ROW_BYTES))
    return pool


def sample(number: int, row: int = 0) -> SampleTask:
    return SampleTask(number, epoch=0, step=0, sample=number, slot=0, row=row, seed=0)


def events(pool: Pool, count: int) -> list[Event]:
    got: list[Event] = []
    while len(got) < count:
        got += [event for event in pool.wait(None) if not isinstance(event.result, Ready)]
    return got


def results(pool: Pool, count: int) -> dict[int, Done | Failed]:
    """Results by the task."""
    got = [event.result for event in events(pool, count)]
    return {result.id: result for result in got if result is not None and result.id is not None}


@pytest.fixture(params=["thread", "process"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_worker_runs_its_tasks_in_order(kind: str) -> None:
    pool = make(kind, Numbers(10), size=1)
    for number in range(10):
        pool.send(0, sample(number))
    got = events(pool, 10)
    assert [event.result.id for event in got if event.result] == list(range(10))
    assert {event.worker for event in got} == {0}
    pool.close()


def test_samples_become_a_batch(kind: str) -> None:
    pool = make(kind, Mapped(10, partial(pow, 2)))
    for row in range(2):
        pool.send(row, sample(3 + row, row))
    samples = [result.value for _, result in sorted(results(pool, 2).items()) if isinstance(result, Done)]
    pool.send(1, CollateTask(99, epoch=0, step=0, slot=0, samples=samples))
    (event,) = events(pool, 1)
    assert isinstance(event.result, Done)
    value = event.result.value
    assert (open_mapped(value, event.files) if isinstance(value, Parcel) else value) == [8, 16]
    assert [span.kind for span in event.result.spans] == ["collate"]
    pool.close()


def test_an_error_in_a_task_is_a_result(kind: str) -> None:
    pool = make(kind, Mapped(10, partial(divmod, 7)))
    pool.send(0, sample(0))
    pool.send(0, sample(1))
    got = results(pool, 2)
    assert isinstance(got[0], Failed)
    assert isinstance(got[0].error, SampleError)
    assert "sample 0 in step 0 of epoch 0 raised ZeroDivisionError" in str(got[0].error)
    assert "return self.function(sample)" in str(got[0].error)
    assert isinstance(got[1], Done)  # the worker goes on
    pool.close()


def test_wake_ends_a_wait_the_next_one_if_there_is_none(kind: str) -> None:
    pool = make(kind, Numbers(1))
    for _ in range(3):
        pool.wake()
        assert not [event for event in pool.wait(10) if not isinstance(event.result, Ready)]
    pool.close()
    pool.wake()  # a consumer may come late


def test_wake_from_another_thread(kind: str) -> None:
    pool = make(kind, Numbers(1))
    threads = [threading.Thread(target=pool.wake) for _ in range(20)]
    for thread in threads:
        thread.start()
    assert not [event for event in pool.wait(10) if not isinstance(event.result, Ready)]
    for thread in threads:
        thread.join()
    pool.close()


def test_close_leaves_nothing(kind: str) -> None:
    files, processes = open_files(), children()
    pool = make(kind, Numbers(10))
    pool.send(0, sample(1))
    events(pool, 1)
    pool.close()
    del pool
    assert open_files() == files
    assert children() == processes
    assert not loader_threads()


def test_close_before_workers_have_started_leaves_nothing(kind: str) -> None:
    files, processes = open_files(), children()
    pool = make(kind, Numbers(10))
    pool.close()
    del pool
    assert open_files() == files
    assert children() == processes


def test_a_pool_that_was_never_started_leaves_nothing(kind: str) -> None:
    files = open_files()
    pool: Pool = ThreadPool(Runner(Numbers(1), list), 1) if kind == "thread" else ProcessPool(b"", 1)
    pool.close()
    del pool
    assert open_files() == files


def test_queued_tasks_are_not_run_any_more_when_closed() -> None:
    dataset = Gated(10)
    pool = make("thread", dataset, size=1)
    for number in range(10):
        pool.send(0, sample(number))
    dataset.wait_until_asked(0)
    closing = threading.Thread(target=pool.close)
    closing.start()
    closing.join()  # it doesn't wait for the one that is stuck
    dataset.open()
    for thread in threading.enumerate():
        if thread.name.startswith("vidload"):
            thread.join(10)
    assert not loader_threads()
    assert dataset.asked == [0]


def test_queued_tasks_are_not_run_any_more_when_the_loader_is_gone(tmp_path: Path) -> None:
    def wait_for_the_end(number: int) -> None:
        (tmp_path / str(number)).touch()
        for thread in threading.enumerate():
            if thread.name == "vidload-listen":
                thread.join()

    pool = make("process", Mapped(10, wait_for_the_end), size=1)
    for number in range(3):
        pool.send(0, sample(number))
    while not (tmp_path / "0").exists():
        pool.wake()
        pool.wait(None)
    pool.close()
    assert [file.name for file in tmp_path.iterdir()] == ["0"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_process_that_dies_is_told_of_with_signal_and_pid(number: signal.Signals) -> None:
    pool = make("process", Signalled(10, at=3, signal=number), size=2)
    pool.send(1, sample(2))
    events(pool, 1)
    pool.send(1, sample(3))
    (event,) = events(pool, 1)
    assert event.worker == 1
    assert event.result is None
    assert event.reason.startswith("worker process 1 (pid ")
    assert f"was ended by {number.name}" in event.reason
    assert ("memory runs out" in event.reason) == (number == signal.SIGKILL)
    pool.send(0, sample(1))  # the other one works on
    pool.send(1, sample(1))  # nobody listens, nothing happens
    (event,) = events(pool, 1)
    assert event.worker == 0
    pool.close()


def test_a_process_that_ends_itself_is_told_of_with_its_status() -> None:
    pool = make("process", Mapped(10, os._exit), size=1)
    pool.send(0, sample(7))
    (event,) = events(pool, 1)
    assert "ended with status 7" in event.reason
    pool.close()


def test_a_thread_that_ends_itself_is_told_of() -> None:
    pool = make("thread", Mapped(10, exit), size=1)
    pool.send(0, sample(7))
    (event,) = events(pool, 1)
    assert event.reason == "worker thread 0 was ended by SystemExit(7)"
    pool.close()


def test_a_process_that_dies_before_it_has_started_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vidload.loader.processes._BOOT", "import sys; sys.exit(5)")
    pool = make("process", Numbers(1), size=1)
    (event,) = events(pool, 1)
    assert event.result is None
    assert "ended with status 5" in event.reason
    pool.close()


@pytest.mark.parametrize(
    "boot",
    [
        "import time; time.sleep(1000)",
        "import os, time; os.write({channel}, bytes(5)); time.sleep(1000)",
        "import os, time; os.write({channel}, (1000).to_bytes(9, 'little') + bytes(50)); time.sleep(1000)",
    ],
    ids=["reads nothing", "stops in a header", "stops in a message"],
)
def test_nothing_waits_for_a_process_that_hangs(boot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vidload.loader.processes._BOOT", boot)
    pool = make("process", Mapped(10, partial(str, bytes(10_000_000))), size=1)
    for number in range(10):
        pool.send(0, CollateTask(number, epoch=0, step=0, slot=0, samples=[bytes(100_000)] * 10))
    if "write" in boot:
        assert pool.wait(10) == []  # what there is is read, and the rest not waited for
    pool.wake()
    assert pool.wait(10) == []
    pool.close()


def test_slots_are_attached_and_detached(kind: str) -> None:
    pool = make(kind, Numbers(10), size=1)
    slots = [Slot(number, 100) for number in (1, 2)]
    for slot in slots:
        pool.attach(slot)
    pool.detach(1)
    pool.send(0, sample(5))
    events(pool, 1)  # the worker has read all that
    pool.close()
