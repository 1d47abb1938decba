"""The consumer and the scheduler's thread: whatever interrupts whom, nothing hangs and nothing comes twice."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable

import pytest

from tests.loader.processes import loader_threads
from vidload.errors import LoaderClosedError, WorkerError
from vidload.loader.device import Host
from vidload.loader.pipeline import END, Finished, Key, Position
from vidload.loader.prefetch import PrefetchPipeline
from vidload.loader.stats import Stats
from vidload.loader.transfer import Transfer


class FakeScheduler:
    """Finishes what the test puts into `work`, and sees of the consumer what `turn` is told."""

    def __init__(self, epochs: int | None = None, steps: int = 1) -> None:
        self.steps = steps
        self.ends: dict[int, int] = {}
        self.work: queue.SimpleQueue[list[Key] | BaseException | None] = queue.SimpleQueue()
        self.seen: list[Key] = []
        self.epochs = epochs
        self.state = "new"
        self._turned = threading.Condition()

    def start(self) -> None:
        self.state = "started"

    def wake(self) -> None:
        self.work.put(None)

    def is_over(self, epoch: int) -> bool:
        return self.epochs is not None and epoch >= self.epochs

    def turn(self, position: Position) -> list[tuple[Key, Finished]]:
        with self._turned:
            self.seen.append((position.epoch, position.taken))
            self.ends = {position.epoch: self.steps}
            self._turned.notify_all()
        work = self.work.get()
        if isinstance(work, BaseException):
            raise work
        return [(key, Finished(key)) for key in work or []]

    def close(self) -> None:
        self.state = "closed"

    def wait_for_turn(self, of: Callable[[list[Key]], bool]) -> None:
        """Wait until the consumer's positions at the turns so far are such."""
        with self._turned:
            assert self._turned.wait_for(lambda: of(self.seen), timeout=30)


class News(queue.SimpleQueue):  # type: ignore[type-arg]
    """What a consumer waits on; tells whether and when it does."""

    def __init__(self) -> None:
        self.waited = False
        self.waiting = threading.Event()

    def get(self, block: bool = True, timeout: float | None = None) -> None:
        self.waited = self.waited or self.empty()
        self.waiting.set()
        super().get(block, timeout)


def pipeline_of(scheduler: FakeScheduler, *, ahead: int = 100, in_order: bool = True) -> PrefetchPipeline:
    transfer = Transfer(Host())
    return PrefetchPipeline(scheduler, transfer, ahead=ahead, in_order=in_order, stats=Stats())  # type: ignore[arg-type]


def make(
    steps: int = 3, *, ahead: int = 100, in_order: bool = True, epochs: int | None = None
) -> tuple[PrefetchPipeline, FakeScheduler]:
    scheduler = FakeScheduler(epochs, steps)
    pipeline = pipeline_of(scheduler, ahead=ahead, in_order=in_order)
    pipeline._news = News()
    pipeline.start()
    return pipeline, scheduler


def take(pipeline: PrefetchPipeline) -> object:
    found = pipeline.take()
    return found.batch if isinstance(found, Finished) else found


def test_batches_come_in_order_though_finished_in_another() -> None:
    pipeline, scheduler = make()
    scheduler.work.put([(0, 2), (1, 0), (0, 1)])
    scheduler.work.put([(0, 0)])
    assert [take(pipeline) for _ in range(4)] == [(0, 0), (0, 1), (0, 2), END]
    pipeline.begin(1)
    assert take(pipeline) == (1, 0)
    pipeline.close()


def test_out_of_order_batches_come_as_finished_but_never_from_the_next_epoch() -> None:
    pipeline, scheduler = make(in_order=False)
    scheduler.work.put([(1, 1), (0, 2), (0, 1)])
    assert [take(pipeline) for _ in range(2)] == [(0, 2), (0, 1)]
    scheduler.work.put([(1, 0), (0, 0)])
    assert [take(pipeline) for _ in range(2)] == [(0, 0), END]
    pipeline.begin(1)
    assert [take(pipeline) for _ in range(2)] == [(1, 1), (1, 0)]
    pipeline.close()


def test_what_is_ready_is_taken_without_waiting_across_the_epoch_mark_too() -> None:
    pipeline, scheduler = make()
    scheduler.work.put([(0, 0), (0, 1), (0, 2), (1, 0)])
    scheduler.wait_for_turn(lambda seen: len(seen) == 2)  # what the first one finished is ready
    pipeline._news.waited = False
    assert [take(pipeline) for _ in range(4)] == [(0, 0), (0, 1), (0, 2), END]
    pipeline.begin(1)
    assert take(pipeline) == (1, 0)
    assert not pipeline._news.waited
    pipeline.close()


def test_the_scheduler_is_told_of_every_step() -> None:
    pipeline, scheduler = make(steps=2)
    scheduler.work.put([(0, 0), (0, 1)])
    for _ in range(2):
        take(pipeline)
    scheduler.wait_for_turn(lambda seen: seen[-1] == (0, 2))
    pipeline.begin(1)
    scheduler.wait_for_turn(lambda seen: seen[-1] == (1, 0))
    pipeline.leave(1)
    scheduler.wait_for_turn(lambda seen: seen[-1] == (2, 0))
    pipeline.close()
    assert scheduler.seen == sorted(scheduler.seen)


def test_leaving_drops_what_is_ready_of_the_epoch() -> None:
    pipeline, scheduler = make()
    scheduler.work.put([(0, 0), (0, 1)])
    batch = take(pipeline)
    assert batch == (0, 0)
    pipeline.leave(0)
    scheduler.work.put([(0, 2), (1, 0)])  # one that was under way, and the next epoch's
    pipeline.begin(1)
    assert take(pipeline) == (1, 0)
    scheduler.wait_for_turn(lambda seen: seen[-1] == (1, 1))
    assert not pipeline._ready
    pipeline.close()


def test_what_ends_the_scheduler_is_raised_after_the_batches_that_are_ready() -> None:
    pipeline, scheduler = make()
    scheduler.work.put([(0, 0)])
    scheduler.work.put(WorkerError("worker 0 died"))
    assert take(pipeline) == (0, 0)
    for _ in range(2):
        with pytest.raises(WorkerError, match="worker 0 died"):
            take(pipeline)
    pipeline.close()
    assert scheduler.state == "closed"


def test_the_scheduler_ends_with_the_last_epoch() -> None:
    pipeline, scheduler = make(steps=1, epochs=1)
    scheduler.work.put([(0, 0)])
    assert take(pipeline) == (0, 0)
    assert take(pipeline) is END
    pipeline.leave(0)
    pipeline._thread.join(10)
    assert scheduler.state == "closed"
    pipeline.close()


def test_closing_wakes_a_consumer_that_waits() -> None:
    pipeline, _ = make()
    thread = threading.Thread(target=lambda: pipeline._news.waiting.wait(30) and pipeline.close())
    thread.start()
    with pytest.raises(LoaderClosedError, match="closed"):
        take(pipeline)
    thread.join()


def test_closing_from_many_threads_at_once() -> None:
    pipeline, scheduler = make()
    threads = [threading.Thread(target=pipeline.close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert scheduler.state == "closed"
    assert not loader_threads()


def test_closing_before_the_start() -> None:
    scheduler = FakeScheduler()
    pipeline = pipeline_of(scheduler)
    pipeline.close()
    pipeline.start()  # what Ctrl-C between the two may leave
    pipeline._thread.join(10)
    assert scheduler.state == "closed"


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("handle", [lambda pipeline: pipeline.close(), lambda _: interrupt()], ids=["close", "Ctrl-C"])
def test_a_signal_may_come_while_the_consumer_waits(handle: Callable[[PrefetchPipeline], None]) -> None:
    pipeline, scheduler = make()
    before = signal.signal(signal.SIGUSR1, lambda *_: handle(pipeline))
    try:
        arguments = os.getpid(), signal.SIGUSR1
        thread = threading.Thread(target=lambda: pipeline._news.waiting.wait(30) and os.kill(*arguments))
        thread.start()
        with pytest.raises((LoaderClosedError, KeyboardInterrupt)) as caught:
            take(pipeline)
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    if caught.type is KeyboardInterrupt:
        scheduler.work.put([(0, 0)])
        assert take(pipeline) == (0, 0)
    pipeline.close()
