"""Workers that do what a test tells them, when it tells them, and batches that show who wrote into them."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from vidload.errors import VidloadError
from vidload.loader.memory import Mapping
from vidload.loader.messages import CollateTask, Done, Failed, Ready, SampleTask, Task
from vidload.loader.pool import Event
from vidload.loader.ring import Ring, Slot
from vidload.loader.span import Span

ROW = 16
"""Bytes of a row in a slot."""


def stamp(epoch: int, sample: int) -> int:
    """What a worker fills a row with."""
    return (31 * epoch + sample) % 251 + 1


class FakePool:
    """Workers that finish a task when the test calls `finish`; `wait` gives what they finished and never waits.

    Attributes:
        sent: (worker, task) of all tasks so far.
        queues: The tasks that each worker has.
        restarted: Workers that were replaced.
        beginning_nothing: Workers that are dead already, though nobody knows.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.sent: list[tuple[int, Task]] = []
        self.queues: list[deque[Task]] = [deque() for _ in range(size)]
        self.slots: dict[int, Mapping] = {}
        self.events: list[Event] = []
        self.restarted: list[int] = []
        self.beginning_nothing: set[int] = set()
        self.woken = 0
        self.state = "new"

    def start(self) -> None:
        self.state = "started"
        self.events += [Event(worker, Ready()) for worker in range(self.size)]

    def begun(self, worker: int) -> int:
        return self.queues[worker][0].id if self.queues[worker] and worker not in self.beginning_nothing else 0

    def restart(self, worker: int) -> None:
        self.restarted.append(worker)
        self.queues[worker].clear()
        self.events.append(Event(worker, Ready()))

    def close(self) -> None:
        self.state = "closed"

    def send(self, worker: int, task: Task) -> None:
        self.sent.append((worker, task))
        self.queues[worker].append(task)

    def attach(self, slot: Slot) -> None:
        assert slot.number not in self.slots
        self.slots[slot.number] = slot.mapping

    def detach(self, slot: int) -> None:
        del self.slots[slot]

    def wait(self, timeout: float | None) -> list[Event]:
        events, self.events = self.events, []
        return events

    def wake(self) -> None:
        self.woken += 1

    def finish(self, worker: int, error: VidloadError | None = None) -> Task:
        """Let a worker finish the first task it has."""
        task = self.queues[worker].popleft()
        if error is not None:
            self.events.append(Event(worker, Failed(task.id, error)))
        elif isinstance(task, CollateTask):
            self.events.append(Event(worker, Done(task.id, list(task.samples), ())))
        else:
            if task.slot >= 0:
                row = self.slots[task.slot].array((ROW,), task.row * ROW)
                row[:] = stamp(task.epoch, task.sample)
            span = Span("sample", worker, task.epoch, task.step, 0.0, 1.0)
            self.events.append(Event(worker, Done(task.id, task.sample, (span,))))
        return task

    def finish_all(self) -> None:
        """Let all workers finish all they have."""
        for worker, queue in enumerate(self.queues):
            while queue:
                self.finish(worker)

    @property
    def samples(self) -> list[tuple[int, int]]:
        """(epoch, sample) of all sample tasks so far."""
        return [(task.epoch, task.sample) for _, task in self.sent if isinstance(task, SampleTask)]


class InPlace:
    """Batches that lie in slots, like those of clips: (rows, results)."""

    tasks_per_worker = 2

    row_bytes = ROW

    def task(self, number: int, epoch: int, step: int, sample: int, slot: int, row: int) -> Task:
        return SampleTask(number, epoch, step, sample, slot, row, seed=0)

    def collate(self, number: int, epoch: int, step: int, slot: int, results: list[Any]) -> Task | None:
        return None

    def finish(
        self,
        epoch: int,
        step: int,
        samples: list[int],
        repeated: npt.NDArray[np.bool_] | None,
        results: list[Any],
        ring: Ring | None,
        slot: Slot | None,
    ) -> tuple[npt.NDArray[np.uint8], list[Any]]:
        assert ring is not None
        assert slot is not None
        return ring.lend(slot, (len(samples), ROW)), results

    def close(self) -> None:
        pass
