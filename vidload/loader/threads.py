"""Workers that are threads of the loader's process."""

from __future__ import annotations

import queue
import threading
import time

from vidload.dataset import ClipDataset
from vidload.loader.memory import Mapping
from vidload.loader.messages import Task
from vidload.loader.pool import Event
from vidload.loader.ring import Slot
from vidload.loader.runner import Runner

__all__ = ["ThreadPool"]

_END_GRACE = 0.5
"""Seconds that threads have to finish the task they are at when the loader is closed."""


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
        self._inboxes: list[queue.SimpleQueue[Task | None]] = [queue.SimpleQueue() for _ in range(size)]
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closing = False

    def start(self) -> None:
        """Start the threads."""
        for worker in range(self.size):
            # Daemons, so that an interpreter that ends without a close doesn't wait for them.
            thread = threading.Thread(target=self._serve, args=(worker,), name=f"vidload-worker-{worker}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def send(self, worker: int, task: Task) -> None:
        """Hand a task to a thread."""
        self._inboxes[worker].put(task)

    def attach(self, slot: Slot) -> None:
        """Let all threads see a slot."""
        self._mappings[slot.number] = slot.mapping

    def detach(self, slot: int) -> None:
        """Let all threads forget a slot."""
        del self._mappings[slot]

    def wait(self) -> list[Event]:
        """Wait until a thread has done something, or `wake` is called."""
        events = [self._events.get()]
        while not self._events.empty():
            events.append(self._events.get())
        return [event for event in events if event is not None]

    def wake(self) -> None:
        """End a `wait`."""
        self._events.put(None)

    def close(self) -> None:
        """End the threads after the task that each is at; those that take long end by themselves later."""
        self._closing = True
        for inbox in self._inboxes:
            inbox.put(None)
        deadline = time.monotonic() + _END_GRACE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _serve(self, worker: int) -> None:
        try:
            while (task := self._inboxes[worker].get()) is not None and not self._closing:
                self._events.put(Event(worker, self._runner.run(task, worker, self._mappings.__getitem__)))
        except BaseException as error:  # sys.exit() in user code, for one
            self._events.put(Event(worker, None, reason=f"worker thread {worker} was ended by {error!r}"))
        if isinstance(self._runner.dataset, ClipDataset):
            self._runner.dataset.close()  # this thread's decoders
