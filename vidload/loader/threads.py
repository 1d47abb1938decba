"""Workers that are threads of the loader's process."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from vidload.dataset import ClipDataset
from vidload.loader.memory import Mapping
from vidload.loader.messages import ClipTask, Done, Failed, Ready, Task
from vidload.loader.pool import Event
from vidload.loader.ring import Slot
from vidload.loader.runner import Runner

__all__ = ["ThreadPool"]

_END_GRACE = 0.5
"""Seconds that threads have to finish the task they are at when the loader is closed."""


@dataclass(eq=False)
class _Worker:
    """One thread. Nobody can end it: one that hangs is given up, and what it does from then on is ignored."""

    number: int
    inbox: queue.SimpleQueue[Task | None] = field(default_factory=queue.SimpleQueue)
    lock: threading.Lock = field(default_factory=threading.Lock)
    given_up: bool = False
    begun: int = 0
    thread: threading.Thread | None = None


class ThreadPool:
    """Threads. Decoders let go of the GIL while they work.

    Args:
        runner: What they all run.
        size: How many.
    """

    def __init__(self, runner: Runner, size: int) -> None:
        self.size = size
        self._runner = runner
        self._mappings: dict[int, Mapping] = {}
        self._workers = [_Worker(number) for number in range(size)]
        self._events: queue.SimpleQueue[tuple[_Worker, Event] | None] = queue.SimpleQueue()
        self._closing = False

    def start(self) -> None:
        """Start the threads."""
        for worker in self._workers:
            self._start(worker)

    def _start(self, worker: _Worker) -> None:
        # A daemon, so that an interpreter that ends without a close doesn't wait for it.
        worker.thread = threading.Thread(
            target=self._serve, args=(worker,), name=f"vidload-worker-{worker.number}", daemon=True
        )
        worker.thread.start()

    def begun(self, worker: int) -> int:
        """Id of the task that a thread began last; 0 for none."""
        return self._workers[worker].begun

    def restart(self, worker: int) -> None:
        """Give a thread up, and start another one in its place."""
        old = self._workers[worker]
        with old.lock:  # it may be about to write a clip
            old.given_up = True
        old.inbox.put(None)
        self._workers[worker] = _Worker(worker)
        self._start(self._workers[worker])

    def send(self, worker: int, task: Task) -> None:
        """Hand a task to a thread."""
        self._workers[worker].inbox.put(task)

    def attach(self, slot: Slot) -> None:
        """Let all threads see a slot."""
        self._mappings[slot.number] = slot.mapping

    def detach(self, slot: int) -> None:
        """Let all threads forget a slot."""
        del self._mappings[slot]

    def wait(self, timeout: float | None) -> list[Event]:
        """Wait until a thread has done something, `wake` is called, or so many seconds have passed."""
        try:
            items = [self._events.get(timeout=timeout)]
        except queue.Empty:
            return []
        while not self._events.empty():
            items.append(self._events.get())
        return [item[1] for item in items if item is not None and not item[0].given_up]

    def wake(self) -> None:
        """End a `wait`."""
        self._events.put(None)

    def close(self) -> None:
        """End the threads after the task that each is at; those that take long end by themselves later."""
        self._closing = True
        for worker in self._workers:
            worker.inbox.put(None)
        deadline = time.monotonic() + _END_GRACE
        for worker in self._workers:
            if worker.thread is not None:
                worker.thread.join(max(0.0, deadline - time.monotonic()))

    def _serve(self, worker: _Worker) -> None:
        try:
            failed = self._runner.enter(worker.number)
            self._events.put((worker, Event(worker.number, failed or Ready())))
            while (task := worker.inbox.get()) is not None and not self._over(worker) and failed is None:
                result = self._run(worker, task)
                if result is not None:
                    self._events.put((worker, Event(worker.number, result)))
        except BaseException as error:  # sys.exit() in user code, for one
            reason = f"worker thread {worker.number} was ended by {error!r}"
            self._events.put((worker, Event(worker.number, None, reason=reason)))
        if isinstance(self._runner.dataset, ClipDataset):
            self._runner.dataset.close()  # this thread's decoders

    def _over(self, worker: _Worker) -> bool:
        return self._closing or worker.given_up

    def _run(self, worker: _Worker, task: Task) -> Done | Failed | None:
        """The task's result; None if the worker was given up meanwhile."""
        worker.begun = task.id
        if not isinstance(task, ClipTask):
            return self._runner.run(task, worker.number, self._mappings.__getitem__)
        # A clip is decoded beside its slot: a thread that was given up must not write into memory of a later batch.
        draft = _Draft()
        result = self._runner.run(task, worker.number, lambda _: draft)
        with worker.lock:
            if worker.given_up:
                return None
            if draft.frames is not None and isinstance(result, Done):
                self._mappings[task.slot].array(draft.frames.shape, draft.offset)[:] = draft.frames
        return result


class _Draft:
    """Stands for a slot; what is written into it stays here."""

    frames: npt.NDArray[np.uint8] | None = None
    offset = 0

    def array(self, shape: tuple[int, ...], offset: int = 0) -> npt.NDArray[np.uint8]:
        """Memory of a shape, to be copied to a byte offset of the slot."""
        self.frames, self.offset = np.empty(shape, np.uint8), offset
        return self.frames
