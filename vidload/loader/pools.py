"""Workers: processes, threads, or the caller itself, behind one small interface."""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from vidload.loader.channel import Channel
from vidload.loader.memory import Slot
from vidload.loader.messages import Attach, Detach, Done, Failed, Ready, Start, Task
from vidload.loader.runner import Memory, Runner

__all__ = ["CallerPool", "Event", "Pool", "ProcessPool", "ThreadPool"]

_END_GRACE = 0.5
"""Seconds that workers have to end by themselves when the loader is closed."""


@dataclass(frozen=True, slots=True)
class Event:
    """What a worker did: a result with its files, or, where `result` is None, it died as `reason` says."""

    worker: int
    result: Done | Failed | None
    files: tuple[int, ...] = ()
    reason: str = ""


class Pool(Protocol):
    """Some workers. All methods but `wake` are for one thread."""

    size: int
    shares_memory: bool
    """Whether workers see the loader's objects as they are, so that nothing has to be packed."""

    def start(self) -> None:
        """Start all workers."""
        ...

    def send(self, worker: int, task: Task) -> None:
        """Hand a task to a worker, which runs its tasks in order."""
        ...

    def attach(self, slot: Slot) -> None:
        """Let all workers know a slot before tasks name it."""
        ...

    def detach(self, slot: int) -> None:
        """Let all workers forget a slot."""
        ...

    def wait(self) -> list[Event]:
        """Wait until a worker has done something, or `wake` is called."""
        ...

    def wake(self) -> None:
        """End a `wait`, the next one if there is none; from any thread."""
        ...

    def close(self) -> None:
        """End all workers, and wait until they are gone."""
        ...


class CallerPool:
    """No worker at all: tasks run when they are handed over."""

    shares_memory = True

    def __init__(self, runner: Runner, memory: Memory) -> None:
        self.size = 1
        self._runner = runner
        self._memory = memory
        self._events: list[Event] = []

    def start(self) -> None:
        """Nothing to start."""

    def send(self, worker: int, task: Task) -> None:
        """Run the task."""
        self._events.append(Event(worker, self._runner.run(task, worker, self._memory)))

    def attach(self, slot: Slot) -> None:
        """Nothing to tell."""

    def detach(self, slot: int) -> None:
        """Nothing to tell."""

    def wait(self) -> list[Event]:
        """Results since the last time."""
        events, self._events = self._events, []
        return events

    def wake(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing to end."""


class ThreadPool:
    """Threads of the loader's process. Decoders let go of the GIL while they work."""

    shares_memory = True

    def __init__(self, runner: Runner, memory: Memory, size: int) -> None:
        self.size = size
        self._runner = runner
        self._memory = memory
        self._inboxes: list[queue.SimpleQueue[Task | None]] = [queue.SimpleQueue() for _ in range(size)]
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the threads."""
        for worker in range(self.size):
            # Daemons, so that an interpreter that ends without a close doesn't wait for them.
            thread = threading.Thread(
                target=_serve,
                args=(self._runner, worker, self._memory, self._inboxes[worker], self._events),
                name=f"vidload-worker-{worker}",
                daemon=True,
            )
            thread.start()
            self._threads.append(thread)

    def send(self, worker: int, task: Task) -> None:
        """Hand a task to a thread."""
        self._inboxes[worker].put(task)

    def attach(self, slot: Slot) -> None:
        """Nothing to tell: threads see the loader's memory."""

    def detach(self, slot: int) -> None:
        """Nothing to tell."""

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
        """End the threads after the task that each is at."""
        for inbox in self._inboxes:
            inbox.put(None)
        deadline = time.monotonic() + _END_GRACE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _serve(
    runner: Runner,
    worker: int,
    memory: Memory,
    inbox: queue.SimpleQueue[Task | None],
    events: queue.SimpleQueue[Event | None],
) -> None:
    while (task := inbox.get()) is not None:
        events.put(Event(worker, runner.run(task, worker, memory)))
    close: Callable[[], None] | None = getattr(runner.dataset, "close", None)
    if close is not None and type(runner.dataset).__module__.startswith("vidload."):
        close()


class ProcessPool:
    """Processes, each a module of its own: see `vidload.loader.worker`.

    Args:
        runner: A pickled `Runner`.
        size: How many.
    """

    shares_memory = False

    def __init__(self, runner: bytes, size: int) -> None:
        self.size = size
        self._runner = runner
        self._channels: list[Channel] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._dead: set[int] = set()
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)

    def start(self) -> None:
        """Start the processes; the calling thread has to live as long as they."""
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            environment.setdefault(name, "1")  # workers share the cores already
        for worker in range(self.size):
            channel, there = Channel.pair()
            with there:
                self._processes.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "vidload.loader.worker", str(there.fileno()), str(worker)],
                        pass_fds=[there.fileno()],
                        env=environment,
                        start_new_session=True,  # Ctrl-C in a terminal goes to the loader alone
                    )
                )
            self._channels.append(channel)
            self._selector.register(channel, selectors.EVENT_READ, worker)
            self._send(worker, Start(self._runner, list(sys.path)))

    def send(self, worker: int, task: Task) -> None:
        """Hand a task to a process."""
        self._send(worker, task)

    def _send(self, worker: int, message: Start | Task | Attach | Detach, files: Sequence[int] = ()) -> None:
        with contextlib.suppress(OSError):  # it died: `wait` is about to say so
            self._channels[worker].send(message, files)

    def attach(self, slot: Slot) -> None:
        """Let all processes map a slot."""
        for worker in range(self.size):
            self._send(worker, Attach(slot.number, slot.size), [slot.file])

    def detach(self, slot: int) -> None:
        """Let all processes forget a slot."""
        for worker in range(self.size):
            self._send(worker, Detach(slot))

    def wait(self) -> list[Event]:
        """Wait until a process has done something, or `wake` is called."""
        events: list[Event] = []
        for key, _ in self._selector.select():
            if key.data is None:
                while True:
                    try:
                        if len(os.read(self._wake_read, 4096)) < 4096:
                            break
                    except BlockingIOError:
                        break
                continue
            worker: int = key.data
            try:
                result, files = self._channels[worker].receive()
            except EOFError:
                self._selector.unregister(self._channels[worker])
                self._dead.add(worker)
                events.append(Event(worker, None, reason=self._how_it_ended(worker)))
                continue
            if not isinstance(result, Ready):
                events.append(Event(worker, result, tuple(files)))
        return events

    def _how_it_ended(self, worker: int) -> str:
        process = self._processes[worker]
        try:
            code = process.wait(_END_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if code < 0:
            name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
            hint = "; the kernel does that when memory runs out" if name == "SIGKILL" else ""
            how = f"was ended by {name}{hint}"
        else:
            how = f"ended with status {code}"
        return f"worker process {worker} (pid {process.pid}) {how}"

    def wake(self) -> None:
        """End a `wait`."""
        with contextlib.suppress(BlockingIOError):  # the pipe is full: it is about to wake anyway
            os.write(self._wake_write, b"\0")

    def close(self) -> None:
        """End the processes: those at work have half a second, then they are killed."""
        for channel in self._channels:
            channel.close()
        deadline = time.monotonic() + _END_GRACE
        for process in self._processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
        for process in self._processes:
            process.wait()
        self._selector.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
