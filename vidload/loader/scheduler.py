"""The scheduler: walks the order without stopping at an epoch's end, and keeps workers ahead of the consumer."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vidload.clips.order import Order, as_list
from vidload.errors import ArgumentError, VidloadError, WorkerError
from vidload.loader.assembly import Assembly, RowsError
from vidload.loader.faults import Faults
from vidload.loader.memory import Mapping
from vidload.loader.messages import CollateTask, Done, Failed, Ready, Task
from vidload.loader.pipeline import Finished, Key, Position
from vidload.loader.pool import Event, Pool
from vidload.loader.ring import Ring, Slot
from vidload.loader.stats import Stats

__all__ = ["Scheduler"]

_MAX_DEATHS = 2
"""Workers that may die, or hang, over one task before it counts as an error: it is tried once more elsewhere.

Only those count that had begun it: where all workers are killed at once, a task may be handed to several that are dead.
"""

_MAX_LOSSES = 20
"""Workers that a task may be with when they die, whether they began it or not."""

_MAX_STARTS = 3
"""Workers that may die in one place in a row before they have loaded the data set."""

_START_TIMEOUT = 300.0
"""Seconds that a worker may take to start, at least: it imports the user's modules and loads the data set."""


@dataclass(eq=False)
class _OpenBatch:
    """A batch that is being loaded."""

    epoch: int
    step: int
    samples: list[Any]
    slot: Slot | None
    results: list[Any]
    unfinished: int
    in_flight: int = 0
    cancelled: bool = False
    error: tuple[int, VidloadError] | None = None  # of the first row that has one
    attempts: dict[int, int] = field(default_factory=dict)  # by row: samples that couldn't be loaded

    @property
    def slot_number(self) -> int:
        return -1 if self.slot is None else self.slot.number


@dataclass(eq=False)
class _Job:
    """A task, where it belongs, and what has come of it."""

    batch: _OpenBatch
    row: int
    task: Task
    worker: int = -1
    deaths: int = 0  # workers that died or hung over it
    losses: int = 0  # workers that it was with when they did, or that hadn't begun it


class Scheduler:
    """Owns the workers, the ring and all batches that are being loaded.

    All methods but `wake` are for one thread. It knows of the consumer only what `turn` is told.

    Args:
        order: Which samples make up which batch.
        epochs: How many epochs there are; None for no end.
        pool: The workers; started and closed here.
        assembly: How batches are made.
        faults: What becomes of samples that can't be loaded.
        depth: Batches that are loaded ahead of the one the consumer has.
        timeout: Seconds that a worker may take for a task; None for no limit.
        pin: Called with the memory of every new slot that batches will be copied from; None where none is.
        stats: Told of every span that workers report, and of workers that are replaced.
        clock: Seconds, for the timeout.
    """

    def __init__(
        self,
        order: Order,
        epochs: int | None,
        pool: Pool,
        assembly: Assembly,
        faults: Faults,
        *,
        depth: int,
        timeout: float | None = None,
        pin: Callable[[Mapping], None] | None = None,
        stats: Stats | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._order = order
        self._epochs = epochs
        self._pool = pool
        self._assembly = assembly
        self._faults = faults
        self._depth = depth
        self._timeout = timeout
        self._pin = pin
        self._stats = stats or Stats()
        self._clock = clock
        self._ring = Ring(depth + 2) if assembly.row_bytes else None
        self._generation = 0
        self._cursor: Key = (0, 0)  # the batch to open next
        self._skip: frozenset[int] = frozenset()  # steps of the epoch it starts in that were taken before
        self._opened: dict[int, int] = {}  # by epoch: batches opened, or taken before the start
        self._open: set[_OpenBatch] = set()
        self._todo: deque[_Job] = deque()
        self._running: list[list[_Job]] = [[] for _ in range(pool.size)]  # by worker, in the order handed out
        self._since: list[float | None] = [None] * pool.size  # when each began what it is at; None where it waits
        self._ready = [False] * pool.size
        self._failed_starts = [0] * pool.size
        self._next_task = 0
        self._finished: list[tuple[Key, Finished]] = []
        self.ends: dict[int, int] = {}
        """By epoch, for those whose last batch was opened: how many batches it has."""

    def start(self) -> None:
        """Start the workers."""
        self._pool.start()
        self._since = [self._clock()] * self._pool.size

    def wake(self) -> None:
        """End the wait of a `turn`, from any thread; see `Pool.wake`."""
        self._pool.wake()

    def is_over(self, epoch: int) -> bool:
        """Whether a consumer at this epoch wants nothing more."""
        return self._epochs is not None and epoch >= self._epochs

    def turn(self, position: Position) -> list[tuple[Key, Finished]]:
        """Cancel what the consumer has left behind, hand out work, and wait for workers or `wake`.

        Args:
            position: The consumer's.

        Returns:
            The batches that are finished; those of the position's generation.

        Raises:
            WorkerError: If workers can't start.
            ErrorRateExceeded: If too many samples can't be loaded.
        """
        self._cancel(position)
        known = len(self.ends)
        self._open_batches(position)
        self._dispatch()
        # The consumer may be waiting for nothing but to hear that an epoch has ended.
        for event in self._pool.wait(self._patience() if len(self.ends) == known else 0.0):
            self._handle(event)
        self._end_hanging()
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        """End the workers, and let go of all slots; lent memory lives as long as its arrays."""
        self._pool.close()
        self._assembly.close()
        self._ring = None
        self._open.clear()
        self._todo.clear()
        self._running = [[] for _ in self._running]

    # What to load

    def _cancel(self, position: Position) -> None:
        """Drop what isn't handed out of earlier epochs, or of another generation; the rest will be ignored."""
        epoch = position.epoch
        gone = [batch for batch in self._open if batch.epoch < epoch]
        if position.generation != self._generation:
            self._generation = position.generation
            gone = list(self._open)
            self._finished.clear()
            self._cursor = (epoch, 0 if position.done else position.taken)
            self._skip = position.done
            self._opened = {epoch: position.taken}
            self.ends = {}
        elif self._cursor < (epoch, 0):
            self._cursor = (epoch, 0)
            self._skip = frozenset()
        for batch in gone:
            batch.cancelled = True
            self._drop(batch)
        if gone:
            self._todo = deque(job for job in self._todo if not job.batch.cancelled)
            self.ends = {number: steps for number, steps in self.ends.items() if number >= epoch}
            self._opened = {number: count for number, count in self._opened.items() if number >= epoch}

    def _open_batches(self, position: Position) -> None:
        while not self.is_over(self._cursor[0]):
            ahead = sum(count for epoch, count in self._opened.items() if epoch >= position.epoch) - position.taken
            if ahead >= self._depth:
                return
            epoch, step = self._cursor
            steps = self._order.steps(epoch)
            if not steps:
                raise ArgumentError(f"the sampler gives no batch in epoch {epoch}")
            if step < steps and not (epoch == position.epoch and step in self._skip):
                self._open_batch(epoch, step)
            if step + 1 < steps:
                self._cursor = (epoch, step + 1)
            else:
                self._cursor = (epoch + 1, 0)
                self.ends[epoch] = steps
                self._skip = frozenset()

    def _open_batch(self, epoch: int, step: int) -> None:
        samples = as_list(self._order.samples(epoch, step))
        batch = _OpenBatch(epoch, step, samples, self._take_slot(len(samples)), [None] * len(samples), len(samples))
        self._open.add(batch)
        self._opened[epoch] = self._opened.get(epoch, 0) + 1
        for row in range(len(samples)):
            self._todo.append(self._job(batch, row))

    def _job(self, batch: _OpenBatch, row: int) -> _Job:
        self._next_task += 1
        task = self._assembly.task(self._next_task, batch.epoch, batch.step, batch.samples[row], batch.slot_number, row)
        return _Job(batch, row, task)

    def _take_slot(self, rows: int) -> Slot | None:
        if self._ring is None:
            return None
        for number in self._ring.retire():
            self._pool.detach(number)
        slot, new = self._ring.take(rows * self._assembly.row_bytes)
        if new:
            if self._pin is not None:
                self._pin(slot.mapping)
            self._pool.attach(slot)
        return slot

    # Who loads it

    def _dispatch(self) -> None:
        while self._todo:
            job = self._todo[0]
            # One that a worker died over goes to another.
            workers = [worker for worker in range(self._pool.size) if worker != job.worker] or [job.worker]
            worker = min(workers, key=lambda number: len(self._running[number]))
            if len(self._running[worker]) >= self._assembly.tasks_per_worker:
                return
            self._send(worker, self._todo.popleft())

    def _send(self, worker: int, job: _Job) -> None:
        job.worker = worker
        job.batch.in_flight += 1
        self._running[worker].append(job)
        if len(self._running[worker]) == 1 and self._ready[worker]:
            self._since[worker] = self._clock()
        self._pool.send(worker, job.task)

    def _patience(self) -> float | None:
        """Seconds until the first worker has taken too long."""
        ends = [end for worker in range(self._pool.size) if (end := self._end(worker)) is not None]
        return max(0.0, min(ends) - self._clock()) if ends else None

    def _end(self, worker: int) -> float | None:
        """When a worker will have taken too long for what it is at."""
        since = self._since[worker]
        if self._timeout is None or since is None:
            return None
        return since + (self._timeout if self._ready[worker] else max(self._timeout, _START_TIMEOUT))

    def _end_hanging(self) -> None:
        now = self._clock()
        for worker in range(self._pool.size):
            end = self._end(worker)
            if end is not None and now >= end:
                what = f"clip_timeout={self._timeout} s" if self._ready[worker] else "a start may take"
                self._replace(worker, f"worker {worker} took longer than {what}")

    # What comes of it

    def _handle(self, event: Event) -> None:
        worker, result = event.worker, event.result
        if result is None:
            self._replace(worker, event.reason)
        elif isinstance(result, Ready):
            self._ready[worker] = True
            self._failed_starts[worker] = 0
            self._since[worker] = self._clock() if self._running[worker] else None
        elif result.id is None:
            raise result.error
        else:
            job = next((job for job in self._running[worker] if job.task.id == result.id), None)
            if job is None:
                return  # it was taken from this worker a moment ago
            self._running[worker].remove(job)
            self._since[worker] = self._clock() if self._running[worker] else None
            self._settle(job, result, event)

    def _settle(self, job: _Job, result: Done | Failed, event: Event) -> None:
        batch = job.batch
        batch.in_flight -= 1
        if isinstance(result, Done):
            for span in result.spans:
                self._stats.observe(span)
        if batch.cancelled:
            self._drop(batch)
        elif isinstance(job.task, CollateTask):
            if isinstance(result, Failed):
                batch.error = (job.row, result.error)
            else:
                batch.results = [result.value, event.files]
            self._finish(batch)
        elif isinstance(result, Done):
            batch.results[job.row] = result.value
            self._row_is_done(batch, job.worker)
        else:
            self._take_error(batch, job.row, job.worker, result.error)

    def _take_error(self, batch: _OpenBatch, row: int, worker: int, error: VidloadError) -> None:
        attempt = batch.attempts.get(row, 0)
        found = self._faults.replacement(batch.epoch, batch.step, row, batch.samples[row], attempt, error)
        if found is None:
            if batch.error is None or row < batch.error[0]:
                batch.error = (row, error)
            self._row_is_done(batch, worker)
        else:
            batch.attempts[row] = attempt + 1
            (batch.samples[row],) = found
            self._todo.appendleft(self._job(batch, row))

    def _row_is_done(self, batch: _OpenBatch, worker: int) -> None:
        batch.unfinished -= 1
        if batch.unfinished:
            return
        if batch.error is None:
            self._next_task += 1
            collate = self._assembly.collate(self._next_task, batch.epoch, batch.step, batch.slot_number, batch.results)
            if collate is not None:
                self._send(worker, _Job(batch, 0, collate))  # that worker has nothing to do now
                return
        self._finish(batch)

    def _finish(self, batch: _OpenBatch) -> None:
        self._open.discard(batch)
        if batch.error is not None:
            self._release(batch)
            finished = Finished(error=batch.error[1])
        else:
            try:
                finished = self._assemble(batch)
            except RowsError as failed:
                self._redo(batch, failed)
                return
            self._faults.count(len(batch.samples))
        self._finished.append(((batch.epoch, batch.step), finished))

    def _redo(self, batch: _OpenBatch, failed: RowsError) -> None:
        """Have rows that turned out wrong at the end loaded again, or replaced."""
        self._open.add(batch)
        batch.unfinished = len(failed.errors)
        for row, error in failed.errors.items():
            if row in failed.again:
                self._todo.appendleft(self._job(batch, row))
            else:
                self._take_error(batch, row, 0, error)

    def _assemble(self, batch: _OpenBatch) -> Finished:
        repeated = self._order.repeated(batch.epoch, batch.step)
        try:
            made = self._assembly.finish(
                batch.epoch, batch.step, batch.samples, repeated, batch.results, self._ring, batch.slot
            )
        except VidloadError as error:
            return Finished(error=error)
        return Finished(made, repeated=repeated)

    def _drop(self, batch: _OpenBatch) -> None:
        """Forget a cancelled batch as soon as no worker writes into its slot any more."""
        if not batch.in_flight:
            self._open.discard(batch)
            self._release(batch)

    def _release(self, batch: _OpenBatch) -> None:
        if self._ring is not None and batch.slot is not None:
            self._ring.release(batch.slot)

    # Workers that are lost

    def _replace(self, worker: int, reason: str) -> None:
        """Put a new worker in the place of one that died or hangs, and have its tasks done elsewhere."""
        jobs, self._running[worker] = self._running[worker], []
        if not self._ready[worker]:
            self._failed_starts[worker] += 1
            if self._failed_starts[worker] >= _MAX_STARTS:
                raise WorkerError(
                    f"{reason} before it had loaded the data set, as did {_MAX_STARTS - 1} in its place before it; "
                    "what they printed may tell why"
                )
        begun = self._pool.begun(worker)
        for job in jobs:
            job.losses += 1
            job.deaths += job.task.id == begun
        self._stats.count("restarts")
        self._pool.restart(worker)
        self._ready[worker], self._since[worker] = False, self._clock()
        for job in reversed(jobs):
            job.batch.in_flight -= 1
            if job.batch.cancelled:
                self._drop(job.batch)
            elif job.deaths < _MAX_DEATHS and job.losses < _MAX_LOSSES:
                job.worker = worker if job.deaths else -1
                self._todo.appendleft(job)
            else:
                error = WorkerError(f"{reason}, {self._work_of(job.task)}; another worker was lost over it before")
                if isinstance(job.task, CollateTask):
                    job.batch.error = (0, error)
                    self._finish(job.batch)
                else:
                    self._take_error(job.batch, job.row, worker, error)

    def _work_of(self, task: Task) -> str:
        """What a worker was at, for messages."""
        what = f"at step {task.step} of epoch {task.epoch}"
        if isinstance(task, CollateTask):
            return f"{what}, collating the batch"
        facts = self._faults.describe(task.sample)
        clip = f" (clip {facts['clip']} of {facts['video']})" if facts else ""
        return f"{what}, sample {task.sample}{clip}"
