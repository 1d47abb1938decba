"""The scheduler: walks the schedule without stopping at an epoch's end, and keeps workers ahead of the consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vidload.clips.schedule import Schedule
from vidload.errors import VidloadError, WorkerError
from vidload.loader.assembly import Assembly
from vidload.loader.messages import ClipTask, CollateTask, Done, Failed, Task
from vidload.loader.pipeline import Finished, Key
from vidload.loader.pool import Event, Pool
from vidload.loader.ring import Ring, Slot
from vidload.loader.span import Span

__all__ = ["Scheduler"]


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
    error: tuple[int, VidloadError] | None = None  # of the first row that has one

    @property
    def slot_number(self) -> int:
        return -1 if self.slot is None else self.slot.number


class _Running(NamedTuple):
    """A task that is handed out."""

    batch: _OpenBatch
    row: int
    task: Task
    worker: int


class Scheduler:
    """Owns the workers, the ring and all batches that are being loaded.

    All methods but `wake` are for one thread. It knows of the consumer only what `turn` is told.

    Args:
        schedule: Which samples make up which batch.
        epochs: How many epochs there are; None for no end.
        pool: The workers; started and closed here.
        assembly: How batches are made.
        depth: Batches that are loaded ahead of the one the consumer has.
        trace: Called with every span that workers report.
    """

    def __init__(
        self,
        schedule: Schedule,
        epochs: int | None,
        pool: Pool,
        assembly: Assembly,
        *,
        depth: int,
        trace: Callable[[Span], None] | None,
    ) -> None:
        self._schedule = schedule
        self._epochs = epochs
        self._pool = pool
        self._assembly = assembly
        self._depth = depth
        self._trace = trace
        self._ring = Ring(assembly.slot_bytes, depth + 2) if assembly.slot_bytes else None
        self._cursor: Key = (0, 0)  # the batch to open next
        self._open: set[_OpenBatch] = set()
        self._todo: deque[tuple[_OpenBatch, int, Task]] = deque()
        self._running: dict[int, _Running] = {}
        self._load = [0] * pool.size
        self._next_task = 0
        self._finished: list[tuple[Key, Finished]] = []

    def start(self) -> None:
        """Start the workers."""
        self._pool.start()

    def wake(self) -> None:
        """End the wait of a `turn`, from any thread; see `Pool.wake`."""
        self._pool.wake()

    def is_over(self, epoch: int) -> bool:
        """Whether a consumer at this epoch wants nothing more."""
        return self._epochs is not None and epoch >= self._epochs

    def turn(self, epoch: int, taken: int) -> list[tuple[Key, Finished]]:
        """Cancel what the consumer has left behind, hand out work, and wait for workers or `wake`.

        Args:
            epoch: The consumer's.
            taken: How many batches of it were taken.

        Returns:
            The batches that are finished.

        Raises:
            WorkerError: If a worker died or could not start.
        """
        self._cancel(epoch)
        self._open_batches(epoch, taken)
        self._dispatch()
        for event in self._pool.wait():
            self._handle(event)
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        """End the workers, and let go of all slots; lent memory lives as long as its arrays."""
        self._pool.close()
        self._ring = None
        self._open.clear()
        self._todo.clear()
        self._running.clear()

    def _cancel(self, epoch: int) -> None:
        """Drop what isn't handed out of earlier epochs; results of the rest will be ignored."""
        if self._cursor < (epoch, 0):
            self._cursor = (epoch, 0)
        gone = [batch for batch in self._open if batch.epoch < epoch]
        if gone:
            for batch in gone:
                batch.cancelled = True
                self._drop(batch)
            self._todo = deque(item for item in self._todo if not item[0].cancelled)

    def _open_batches(self, epoch: int, taken: int) -> None:
        steps = self._schedule.steps_per_epoch
        while not self.is_over(self._cursor[0]):
            at, step = self._cursor
            if (at - epoch) * steps + step - taken >= self._depth:
                return
            samples = self._schedule.samples(at, step)
            batch = _OpenBatch(at, step, samples, self._take_slot(), [None] * len(samples), len(samples))
            self._open.add(batch)
            for row, sample in enumerate(samples.tolist()):
                task = self._assembly.task(self._number(), at, step, sample, batch.slot_number, row)
                self._todo.append((batch, row, task))
            self._cursor = (at, step + 1) if step + 1 < steps else (at + 1, 0)

    def _take_slot(self) -> Slot | None:
        if self._ring is None:
            return None
        for number in self._ring.retire():
            self._pool.detach(number)
        slot, new = self._ring.take()
        if new:
            self._pool.attach(slot)
        return slot

    def _number(self) -> int:
        self._next_task += 1
        return self._next_task

    def _dispatch(self) -> None:
        while self._todo:
            worker = min(range(len(self._load)), key=self._load.__getitem__)
            if self._load[worker] >= self._assembly.tasks_per_worker:
                return
            self._send(worker, *self._todo.popleft())

    def _send(self, worker: int, batch: _OpenBatch, row: int, task: Task) -> None:
        batch.in_flight += 1
        self._load[worker] += 1
        self._running[task.id] = _Running(batch, row, task, worker)
        self._pool.send(worker, task)

    def _handle(self, event: Event) -> None:
        result = event.result
        if result is None:
            raise WorkerError(event.reason + self._work_of(event.worker))
        if result.id is None:
            raise result.error
        batch, row, task, worker = self._running.pop(result.id)
        self._load[worker] -= 1
        batch.in_flight -= 1
        if isinstance(result, Done) and self._trace is not None:
            for span in result.spans:
                self._trace(span)
        if batch.cancelled:
            self._drop(batch)
        elif isinstance(task, CollateTask):
            if isinstance(result, Failed):
                batch.error = (row, result.error)
            else:
                batch.results = [result.value, event.files]
            self._finish(batch)
        else:
            self._take_result(batch, row, worker, result)

    def _take_result(self, batch: _OpenBatch, row: int, worker: int, result: Done | Failed) -> None:
        if isinstance(result, Done):
            batch.results[row] = result.value
        elif batch.error is None or row < batch.error[0]:
            batch.error = (row, result.error)
        batch.unfinished -= 1
        if batch.unfinished:
            return
        if batch.error is None:
            collate = self._assembly.collate(self._number(), batch.epoch, batch.step, batch.slot_number, batch.results)
            if collate is not None:
                self._send(worker, batch, 0, collate)  # that worker has nothing to do now
                return
        self._finish(batch)

    def _finish(self, batch: _OpenBatch) -> None:
        self._open.discard(batch)
        if batch.error is not None:
            self._release(batch)
            finished = Finished(error=batch.error[1])
        else:
            finished = self._assemble(batch)
        self._finished.append(((batch.epoch, batch.step), finished))

    def _assemble(self, batch: _OpenBatch) -> Finished:
        try:
            return Finished(
                self._assembly.finish(batch.epoch, batch.step, batch.samples, batch.results, self._ring, batch.slot)
            )
        except VidloadError as error:
            return Finished(error=error)

    def _drop(self, batch: _OpenBatch) -> None:
        """Forget a cancelled batch as soon as no worker writes into its slot any more."""
        if not batch.in_flight:
            self._open.discard(batch)
            self._release(batch)

    def _release(self, batch: _OpenBatch) -> None:
        if self._ring is not None and batch.slot is not None:
            self._ring.release(batch.slot)

    def _work_of(self, worker: int) -> str:
        """What a worker was at, for messages."""
        task = next((running.task for running in self._running.values() if running.worker == worker), None)
        if task is None:
            return ""
        what = f" at step {task.step} of epoch {task.epoch}"
        if not isinstance(task, CollateTask):
            what += f", sample {task.sample}"
        if isinstance(task, ClipTask):
            what += f" (clip {task.clip} of video {task.video} in the index)"
        return what
