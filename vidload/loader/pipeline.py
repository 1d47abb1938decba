"""The scheduler: walks the schedule without stopping at an epoch's end, and keeps workers busy ahead of the consumer.

One thread (named vidload-scheduler) owns the workers, the ring and all open batches. The consumer only takes finished
batches, says which epoch it is in, and wakes the scheduler; the condition's lock guards what both touch. The scheduler
never holds the lock while it waits for workers.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vidload.clips.schedule import Schedule
from vidload.errors import LoaderClosedError, VidloadError, WorkerError
from vidload.loader.assembly import Assembly
from vidload.loader.memory import Ring, Slot
from vidload.loader.messages import ClipTask, CollateTask, Done, Failed, Task
from vidload.loader.pools import Event, Pool
from vidload.loader.span import Span

__all__ = ["END", "Pipeline"]

END = object()
"""What `Pipeline.take` gives when the epoch has no more batches."""

_TASKS_PER_WORKER = 2
"""Tasks handed to a worker at a time: the one it is at, and the next, so that it never waits for the scheduler."""


@dataclass(eq=False)
class _OpenBatch:
    """A batch that is being loaded."""

    epoch: int
    step: int
    samples: npt.NDArray[np.int64]
    slot: Slot | None
    results: list[Any]
    unfinished: int
    in_flight: int = 0
    cancelled: bool = False
    error: tuple[int, VidloadError] | None = None


class Pipeline:
    """Loads the batches of a schedule ahead of time.

    Args:
        schedule: Which samples make up which batch.
        epochs: How many epochs there are; None for no end.
        pool: The workers; started and closed here.
        assembly: How batches are made.
        depth: Batches that are loaded ahead of the one the consumer has.
        in_order: Whether batches are taken in the schedule's order, or as they are finished.
        threaded: Whether the scheduler has a thread of its own; without, it works when a batch is asked for.
        trace: Called with every span, from the scheduler's or the consumer's thread.
    """

    def __init__(
        self,
        schedule: Schedule,
        epochs: int | None,
        pool: Pool,
        assembly: Assembly,
        *,
        depth: int,
        in_order: bool,
        threaded: bool,
        trace: Callable[[Span], None] | None,
    ) -> None:
        self._schedule = schedule
        self._epochs = epochs
        self._pool = pool
        self._assembly = assembly
        self._depth = depth
        self._in_order = in_order
        self._trace = trace
        self._ring = Ring(assembly.slot_bytes, depth + 2) if assembly.slot_bytes else None
        self._process = os.getpid()
        # Guarded by the condition:
        self._condition = threading.Condition()
        self._ready: dict[tuple[int, int], Any] = {}
        self._epoch = 0  # the consumer's
        self._taken = 0  # batches it took of that epoch
        self._pending: set[tuple[int, int]] = set()  # opened, not yet taken
        self._failure: BaseException | None = None
        self._closing = False
        self._shut_down = False
        # The scheduler's own:
        self._cursor = (0, 0)
        self._left = 0  # epochs below are of no interest any more
        self._open: dict[tuple[int, int], _OpenBatch] = {}
        self._slots: dict[int, Slot] = {}
        self._todo: deque[tuple[_OpenBatch, int, Task]] = deque()
        self._running: dict[int, tuple[_OpenBatch, int, Task, int]] = {}
        self._load = [0] * pool.size
        self._next_task = 0
        self._thread: threading.Thread | None = None
        if threaded:
            # A daemon: an interpreter that ends joins all other threads first, and nobody would tell this one to end.
            self._thread = threading.Thread(target=self._run, name="vidload-scheduler", daemon=True)

    def start(self) -> None:
        """Start the workers, and loading."""
        if self._thread is not None:
            self._thread.start()
        else:
            self._pool.start()

    # The consumer's side

    def begin(self, epoch: int) -> None:
        """The consumer is at the start of an epoch: what is left of those before is cancelled."""
        with self._condition:
            self._epoch, self._taken = epoch, 0
            for key in [key for key in self._ready if key[0] < epoch]:
                del self._ready[key]
            self._pending = {key for key in self._pending if key[0] >= epoch}
        self._wake()

    def take(self) -> Any:
        """The next batch of the consumer's epoch, or `END`.

        Raises:
            VidloadError: The batch's error, or what ended the workers.
            LoaderClosedError: If the pipeline was closed.
        """
        start = time.monotonic()
        with self._condition:
            epoch, step = self._epoch, self._taken
            if step >= self._schedule.steps_per_epoch:
                return END
            while True:
                if self._failure is not None:
                    raise self._failure
                if self._closing:
                    raise LoaderClosedError("the loader was closed; make a new one to go on")
                key = self._next_key(epoch, step)
                if key is not None:
                    break
                if self._thread is None:
                    self._turn()
                else:
                    self._condition.wait()
            batch = self._ready.pop(key)
            self._pending.discard(key)
            self._taken += 1
        self._wake()
        if self._trace is not None:
            self._trace(Span("wait", -1, epoch, key[1], start, time.monotonic()))
        if isinstance(batch, VidloadError):
            raise batch
        return batch

    def _next_key(self, epoch: int, step: int) -> tuple[int, int] | None:
        if self._in_order:
            return (epoch, step) if (epoch, step) in self._ready else None
        return next((key for key in self._ready if key[0] == epoch), None)

    def close(self, *, wait: bool = True) -> None:
        """End the workers and let go of everything that isn't the consumer's. Safe to call again, from any thread.

        Args:
            wait: Whether to return only when the workers are gone.
        """
        if os.getpid() != self._process:
            return  # a fork of the loader's process: the workers aren't its own
        with self._condition:
            self._closing = True
            self._ready.clear()
            self._condition.notify_all()
        self._wake()
        if self._thread is None:
            self._shut()
        elif wait and self._thread is not threading.current_thread():
            self._thread.join()

    def _wake(self) -> None:
        with self._condition:
            if not self._shut_down:
                self._pool.wake()

    # The workers' side

    def memory(self, slot: int, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
        """Memory of a slot that a task names, for workers in this process."""
        return self._slots[slot].mapping.array(shape)

    # The scheduler's side

    def _run(self) -> None:
        try:
            self._pool.start()
            while not self._closing:
                self._turn()
        except BaseException as error:
            with self._condition:
                self._failure = error
                self._condition.notify_all()
        finally:
            self._shut()

    def _shut(self) -> None:
        with self._condition:
            if self._shut_down:
                return
            self._shut_down = True
        self._pool.close()
        if self._ring is not None:
            self._ring.close()

    def _turn(self) -> None:
        """Take in what the consumer did, hand out work, and wait for results."""
        self._leave()
        self._open_batches()
        self._dispatch()
        for event in self._pool.wait():
            self._handle(event)

    def _leave(self) -> None:
        """Cancel what the consumer doesn't want any more: what isn't handed out is dropped, the rest is ignored."""
        with self._condition:
            epoch = self._epoch
        if epoch <= self._left:
            return
        self._left = epoch
        self._cursor = max(self._cursor, (epoch, 0))
        for batch in [batch for batch in self._open.values() if batch.epoch < epoch]:
            batch.cancelled = True
            self._drop(batch)
        self._todo = deque(item for item in self._todo if not item[0].cancelled)

    def _open_batches(self) -> None:
        while True:
            epoch, step = self._cursor
            if self._epochs is not None and epoch >= self._epochs:
                return
            with self._condition:
                # An epoch that was left a moment ago is for the next turn to see.
                if len(self._pending) >= self._depth or epoch < self._epoch:
                    return
                self._pending.add((epoch, step))
            samples = self._schedule.samples(epoch, step)
            slot = self._take_slot()
            batch = _OpenBatch(epoch, step, samples, slot, [None] * len(samples), len(samples))
            self._open[epoch, step] = batch
            for row, sample in enumerate(samples.tolist()):
                number = -1 if slot is None else slot.number
                task = self._assembly.task(self._number(), epoch, step, sample, number, row)
                self._todo.append((batch, row, task))
            last = step + 1 >= self._schedule.steps_per_epoch
            self._cursor = (epoch + 1, 0) if last else (epoch, step + 1)

    def _take_slot(self) -> Slot | None:
        if self._ring is None:
            return None
        for number in self._ring.retire():
            self._pool.detach(number)
            del self._slots[number]
        slot, new = self._ring.take()
        if new:
            self._pool.attach(slot)
        self._slots[slot.number] = slot
        return slot

    def _number(self) -> int:
        self._next_task += 1
        return self._next_task

    def _dispatch(self) -> None:
        while self._todo:
            worker = min(range(len(self._load)), key=self._load.__getitem__)
            if self._load[worker] >= _TASKS_PER_WORKER:
                return
            batch, row, task = self._todo.popleft()
            self._send(worker, batch, row, task)

    def _send(self, worker: int, batch: _OpenBatch, row: int, task: Task) -> None:
        batch.in_flight += 1
        self._load[worker] += 1
        self._running[task.id] = (batch, row, task, worker)
        try:
            self._pool.send(worker, task)
        except BaseException:  # Ctrl-C in a task that runs in the caller
            batch.in_flight -= 1
            self._load[worker] -= 1
            del self._running[task.id]
            raise

    def _handle(self, event: Event) -> None:
        result = event.result
        if result is None:
            self._died(event)
            return
        if isinstance(result, Failed) and result.id is None:
            raise result.error
        assert result.id is not None
        batch, row, task, worker = self._running.pop(result.id)
        self._load[worker] -= 1
        batch.in_flight -= 1
        if isinstance(result, Done) and self._trace is not None:
            for span in result.spans:
                self._trace(span)
        if batch.cancelled:
            for file in event.files:
                os.close(file)
            self._drop(batch)
            return
        if isinstance(result, Failed):
            if batch.error is None or row < batch.error[0]:
                batch.error = (
                    row,
                    result.error if isinstance(result.error, VidloadError) else WorkerError(str(result.error)),
                )
        elif isinstance(task, CollateTask):
            batch.results = [result.value if self._pool.shares_memory else (result.value, event.files)]
        else:
            batch.results[row] = result.value
        if not isinstance(task, CollateTask):
            batch.unfinished -= 1
            if batch.unfinished:
                return
            if batch.error is None:
                slot = -1 if batch.slot is None else batch.slot.number
                collate = self._assembly.collate(self._number(), batch.epoch, batch.step, slot, batch.results)
                if collate is not None:
                    self._send(worker, batch, 0, collate)
                    return
        self._finish(batch)

    def _finish(self, batch: _OpenBatch) -> None:
        value: Any
        if batch.error is not None:
            value = batch.error[1]
            self._free_slot(batch)
        else:
            value = self._assembly.finish(batch.epoch, batch.step, batch.samples, batch.results, self._ring, batch.slot)
            batch.slot = None
        del self._open[batch.epoch, batch.step]
        with self._condition:
            if batch.epoch >= self._epoch and not self._closing:
                self._ready[batch.epoch, batch.step] = value
                self._condition.notify_all()

    def _drop(self, batch: _OpenBatch) -> None:
        """Forget a cancelled batch as soon as no worker writes into its slot any more."""
        if not batch.in_flight:
            self._free_slot(batch)
            self._open.pop((batch.epoch, batch.step), None)

    def _free_slot(self, batch: _OpenBatch) -> None:
        if self._ring is not None and batch.slot is not None:
            self._ring.release(batch.slot)
            batch.slot = None

    def _died(self, event: Event) -> None:
        tasks = [task for _, _, task, worker in self._running.values() if worker == event.worker]
        what = ""
        if tasks:
            first = tasks[0]
            what = f" at step {first.step} of epoch {first.epoch}"
            if not isinstance(first, CollateTask):
                what += f", sample {first.sample}"
            if isinstance(first, ClipTask):
                what += f" (clip {first.clip} of video {first.video} in the index)"
        raise WorkerError(event.reason + what)
