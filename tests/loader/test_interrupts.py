"""Ctrl-C, a close, or the garbage collector, before every single line that the consumer runs: nothing hangs."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import vidload.loader
from tests.loader.datasets import Mapped, Numbers
from tests.loader.processes import loader_threads
from vidload import VideoLoader
from vidload.errors import LoaderClosedError

LOADER = str(Path(vidload.loader.__file__).parent)


@contextmanager
def at_line(number: int, action: Callable[[], None]) -> Iterator[list[int]]:
    """Do something before the n-th line that this thread runs in vidload/loader; gives the count of lines run."""
    lines = [0]

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(LOADER):
            return None
        if event == "line":
            lines[0] += 1
            if lines[0] == number:
                sys.settrace(None)
                action()
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(previous)


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("num_workers", [0, 2])
def test_ctrl_c_at_any_line_loses_no_more_than_the_batch_it_hits(num_workers: int) -> None:
    loader = VideoLoader(Numbers(4), num_workers=num_workers, worker_kind="thread", collate_fn=list, prefetch_batches=3)
    with loader:
        number, lines = 0, [0]
        while lines[0] >= number:  # until all lines of an epoch were hit
            number += 1
            got: list[int] = []
            iterator = None
            with at_line(number, interrupt) as lines:
                while True:
                    try:
                        if iterator is None:
                            iterator = iter(loader)
                        got += next(iterator)
                    except KeyboardInterrupt:
                        continue
                    except StopIteration:
                        break
            assert got in ([0, 1, 2, 3], [1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2])
        assert number > 30


def test_closing_at_any_line_hangs_nothing() -> None:
    number, lines = 0, [0]
    while lines[0] >= number:
        number += 1
        loader = VideoLoader(Numbers(2), num_workers=1, worker_kind="thread", collate_fn=list, epochs=2)
        iterator = iter(loader)
        with at_line(number, loader.close) as lines:
            try:
                got = list(iterator)
            except LoaderClosedError:
                got = []
        assert got in ([], [[0], [1]])
        assert loader_threads() == [] or lines[0] < number
        loader.close()
    assert number > 15


def test_collecting_garbage_at_any_line_hangs_nothing() -> None:
    """A loader in a cycle is finalised wherever the collector happens to run."""
    number, lines = 0, [0]
    gc.freeze()  # what is there already, so that collecting is quick
    with VideoLoader(Numbers(2), num_workers=1, worker_kind="thread", collate_fn=list) as other:
        while lines[0] >= number:
            number += 1
            loader = VideoLoader(Numbers(2), num_workers=1, worker_kind="thread", collate_fn=list)
            loader.dataset = loader  # type: ignore[assignment]  # a cycle
            gone = weakref.ref(loader)
            del loader
            with at_line(number, lambda: gc.collect() and None) as lines:
                assert list(other) == [[0], [1]]
            gc.collect()
            assert gone() is None
    gc.unfreeze()
    assert number > 15


@pytest.mark.parametrize("where", ["scheduler", "worker"])
def test_the_last_reference_may_go_in_any_thread(where: str) -> None:
    holder: list[VideoLoader] = []
    held, dropped = threading.Event(), threading.Event()

    def drop(_: Any) -> int:
        held.wait(30)
        holder.clear()
        dropped.set()
        return 0

    dataset = Mapped(2, drop) if where == "worker" else Numbers(2)
    trace = drop if where == "scheduler" else None
    holder.append(VideoLoader(dataset, num_workers=1, worker_kind="thread", collate_fn=list, trace=trace))
    gone = weakref.ref(holder[0])
    held.set()
    assert dropped.wait(30)
    assert gone() is None  # and its threads end: see the fixture


def test_a_process_forked_from_the_loaders_is_refused_and_ends_nothing() -> None:
    with VideoLoader(Numbers(4), num_workers=1, collate_fn=list) as loader:
        iterator = iter(loader)
        assert next(iterator) == [0]
        child = os.fork()
        if not child:
            status = 1
            try:
                loader.close()
                with pytest.raises(LoaderClosedError, match="forked"):
                    next(iter(loader))
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert list(iterator) == [[1], [2], [3]]
