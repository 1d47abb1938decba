"""However a loader ends, nothing of it is left: no process, no thread, no open file, nothing in /dev/shm."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.loader.datasets import Arrays, Gated, Numbers
from tests.loader.processes import ROOT, children, has_ended, loader_threads, open_files, run_python
from vidload import ClipDataset, VideoLoader
from vidload.errors import LoaderClosedError

KINDS = [(0, "thread"), (2, "thread"), (2, "process")]
each_kind = pytest.mark.parametrize(("num_workers", "worker_kind"), KINDS)


@each_kind
@pytest.mark.parametrize("taken", [0, 2])
def test_a_dropped_loader_takes_its_workers_along(num_workers: int, worker_kind: Any, taken: int) -> None:
    before = children()
    loader = VideoLoader(Numbers(6), num_workers=num_workers, worker_kind=worker_kind, collate_fn=list)
    iterator = iter(loader)
    for number in range(taken):
        assert next(iterator) == [number]
    del loader
    if taken:
        assert next(iterator) == [taken]  # a loop keeps its loader
    del iterator
    assert children() == before
    assert not loader_threads()


def test_a_loader_in_a_cycle_is_collected_with_its_workers() -> None:
    before = children()
    loader: Any = VideoLoader(Numbers(6), num_workers=1, collate_fn=list)
    loader.itself = loader
    next(iter(loader))
    assert len(children()) == len(before) + 1
    del loader
    gc.collect()
    assert children() == before


@each_kind
def test_closing_is_the_end(num_workers: int, worker_kind: Any) -> None:
    before = children()
    loader = VideoLoader(Numbers(6), num_workers=num_workers, worker_kind=worker_kind, collate_fn=list)
    iterator = iter(loader)
    batch = next(iterator)
    for _ in range(3):
        loader.close()
        assert children() == before
        assert not loader_threads()
    assert batch == [0]
    for _ in range(2):
        with pytest.raises(LoaderClosedError, match="the loader was closed; make a new one"):
            iter(loader)
    with pytest.raises(LoaderClosedError):
        next(iterator)


@each_kind
def test_a_context_manager_closes(num_workers: int, worker_kind: Any) -> None:
    with VideoLoader(Numbers(6), num_workers=num_workers, worker_kind=worker_kind, collate_fn=list) as loader:
        assert next(iter(loader)) == [0]
    with pytest.raises(LoaderClosedError):
        iter(loader)


def test_closing_in_another_thread_while_a_batch_is_waited_for() -> None:
    dataset = Gated(3)
    loader = VideoLoader(dataset, num_workers=1, worker_kind="thread", collate_fn=list)
    dataset.wait_until_asked(0)
    threads = [threading.Thread(target=loader.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    with pytest.raises(LoaderClosedError):
        next(iter(loader))
    for thread in threads:
        thread.join()
    dataset.open()


def test_closing_does_not_wait_for_a_worker_that_is_stuck() -> None:
    loader = VideoLoader(Numbers(3), num_workers=2, collate_fn=list)
    next(iter(loader))
    stopped = children()
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    loader.close()
    assert not stopped & children()


def test_batches_outlive_their_loader(clips: ClipDataset) -> None:
    loader = VideoLoader(clips, 4, num_workers=1)
    batch = next(iter(loader))
    total = int(batch.video.sum())
    loader.close()
    del loader
    gc.collect()
    assert int(batch.video.sum()) == total > 0


def test_many_loaders_leave_no_descriptor_and_no_thread(clips: ClipDataset) -> None:
    gc.collect()  # what other tests left
    files, threads = open_files(), threading.active_count()
    for number in range(30):
        dataset: Any = clips if number % 2 else Arrays(4, 100_000)
        loader = VideoLoader(
            dataset,
            2,
            num_workers=number % 3,
            worker_kind="thread" if number % 5 else "process",
            collate_fn=None if number % 2 else np.stack,
        )
        if number % 4:
            kept = list(loader)
        if number % 7:
            loader.close()
        assert kept if number % 4 else True
    del loader, kept
    assert open_files() == files
    assert threading.active_count() == threads


def test_closed_loaders_that_are_kept_hold_no_descriptor(clips: ClipDataset) -> None:
    gc.collect()  # what other tests left
    files = open_files()
    kept = []
    for num_workers, worker_kind in KINDS:
        loader = VideoLoader(clips, 2, num_workers=num_workers, worker_kind=worker_kind, epochs=1)  # type: ignore[arg-type]
        for _ in loader:
            pass
        loader.close()
        kept.append(loader)
    assert open_files() == files


def test_nothing_is_in_shared_memory_by_name(clips: ClipDataset) -> None:
    before = set(os.listdir("/dev/shm"))
    with (
        VideoLoader(clips, 2, num_workers=2) as one,
        VideoLoader(Arrays(8, 100_000), 2, num_workers=2, collate_fn=np.stack) as two,
    ):
        kept = [next(iter(one)), next(iter(two))]
        assert set(os.listdir("/dev/shm")) <= before
    assert len(kept) == 2


ENDINGS = {
    "end of script": ("", 0),
    "in the loop": ("kept = [next(iterator)]\nfor batch in loader: sys.exit(4)", 4),
    "at once": ("other = vidload.VideoLoader(Numbers(10), num_workers=2, collate_fn=list)", 0),
    "os._exit": ("sys.stdout.flush(); os._exit(5)", 5),
}


@pytest.mark.parametrize(
    ("worker_kind", "ending"), [*(("process", ending) for ending in ENDINGS), ("thread", "in the loop")]
)
def test_an_interpreter_that_ends_without_closing_ends_quietly(worker_kind: str, ending: str) -> None:
    last, status = ENDINGS[ending]
    script = f"""
import os, sys, vidload
from tests.loader.datasets import Numbers
from tests.loader.processes import children
loader = vidload.VideoLoader(Numbers(10), num_workers=2, worker_kind={worker_kind!r}, collate_fn=list)
iterator = iter(loader)
print(next(iterator), *children())
{last}
"""
    done = run_python("-", script=script, timeout=30)
    assert done.stderr == ""
    assert done.returncode == status
    batch, *workers = done.stdout.split()
    assert batch == "[0]"
    assert len(workers) == (2 if worker_kind == "process" else 0)
    assert all(has_ended(int(worker), 2) for worker in workers)


def test_an_error_that_ends_the_script_is_all_that_is_said() -> None:
    script = """
import vidload
from tests.loader.datasets import Numbers
for batch in vidload.VideoLoader(Numbers(10), num_workers=2, collate_fn=list):
    1 / 0
"""
    done = run_python("-", script=script, timeout=30)
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if not line.startswith(" ")] == [
        "Traceback (most recent call last):",
        "ZeroDivisionError: division by zero",
    ]


TRAINER = """
import signal, vidload
from tests.loader.datasets import Mapped
from tests.loader.processes import children
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
# A sample that keeps its worker at work for ever, GIL and all, and one that does nothing.
dataset = Mapped(2, lambda sample: sum(iter(int, 1)) if sample else sample)
loader = vidload.VideoLoader(dataset, num_workers=2, collate_fn=list)
try:
    for batch in loader:
        print(batch, *children(), flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize(
    ("number", "output"), [(signal.SIGKILL, ""), (signal.SIGTERM, ""), (signal.SIGINT, "interrupted\n")]
)
def test_workers_end_with_the_trainer_however_that_dies(number: signal.Signals, output: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", TRAINER],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as trainer:
        try:
            assert trainer.stdout is not None
            batch, *workers = trainer.stdout.readline().split()
            assert batch == "[0]"
            assert len(workers) == 2
            trainer.send_signal(number)
            out, err = trainer.communicate(timeout=20)
        finally:
            trainer.kill()
    assert (out, err) == (output, "")
    assert trainer.returncode == (0 if number == signal.SIGINT else -number)
    assert all(has_ended(int(worker), 2) for worker in workers)


def test_a_worker_whose_trainer_is_gone_before_it_starts_ends_quietly(tmp_path: Path) -> None:
    done = run_python("-c", "from vidload.loader.worker import main; main(0, 0, 1, 0)")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
