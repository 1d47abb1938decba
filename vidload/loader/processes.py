"""Workers that are processes."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from vidload.errors import WorkerError
from vidload.loader.channel import Channel, pack
from vidload.loader.memory import MemoryFile
from vidload.loader.messages import Attach, Detach, Ready, Start, Task
from vidload.loader.pool import Event
from vidload.loader.ring import Slot

__all__ = ["ProcessPool"]

_END_GRACE = 0.5
"""Seconds that workers have to end by themselves when the loader is closed."""

_KILL_GRACE = 2.0
"""Seconds that are waited for a killed process: one that waits for a file server ends when that answers."""

_BOOT = (
    "import sys; sys.path[:] = {path!r}; from vidload.loader.worker import main; "
    "main({channel}, {worker}, {parent}, {begun})"
)
"""What a worker runs: not ``python -m``, which would let any file of the working directory hide a module."""


class ProcessPool:
    """Processes, each a fresh interpreter: see `vidload.loader.worker`.

    Args:
        runner: A pickled `Runner`.
        size: How many.
    """

    def __init__(self, runner: bytes, size: int) -> None:
        self.size = size
        self._runner = runner
        self._channels: dict[int, Channel] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._begun: dict[int, MemoryFile] = {}
        self._ready: set[int] = set()
        self._dead: set[int] = set()
        self._slots: dict[int, Slot] = {}
        self._selector = selectors.DefaultSelector()
        self._waker: _Waker | None = _Waker()
        self._selector.register(self._waker, selectors.EVENT_READ, None)

    def start(self) -> None:
        """Start the processes; the calling thread has to live as long as they."""
        for worker in range(self.size):
            self._spawn(worker)

    def _spawn(self, worker: int) -> None:
        environment = dict(os.environ)
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            environment.setdefault(name, "1")  # workers share the cores already
        channel, there = Channel.pair()
        begun = self._begun[worker] = MemoryFile.make(f"vidload-begun-{worker}", 8)
        boot = _BOOT.format(
            path=sys.path, channel=there.fileno(), worker=worker, parent=os.getpid(), begun=begun.fileno()
        )
        with there:
            try:
                self._processes[worker] = subprocess.Popen(
                    [sys.executable, "-c", boot],
                    stdin=subprocess.DEVNULL,  # the loader's may be the script
                    pass_fds=[there.fileno(), begun.fileno()],
                    env=environment,
                    start_new_session=True,  # Ctrl-C in a terminal goes to the loader alone
                )
            except OSError as error:
                channel.close()
                raise WorkerError(f"worker process {worker} can't be started: {error}") from error
        self._channels[worker] = channel
        self._selector.register(channel, selectors.EVENT_READ, worker)
        self._send(worker, pack(Start(self._runner)))

    def begun(self, worker: int) -> int:
        """Id of the task that a process began last; 0 for none."""
        return int.from_bytes(os.pread(self._begun[worker].fileno(), 8, 0), "little")

    def restart(self, worker: int) -> None:
        """Kill a process that isn't dead yet, and start another one that knows all slots."""
        channel = self._channels[worker]
        if worker not in self._dead:
            self._selector.unregister(channel)
        channel.close()
        self._ready.discard(worker)
        self._dead.discard(worker)
        _kill(self._processes[worker])
        self._spawn(worker)
        for slot in self._slots.values():
            self._send(worker, pack(Attach(slot.number, slot.size)), [slot.file])

    def send(self, worker: int, task: Task) -> None:
        """Hand a task to a process."""
        self._send(worker, pack(task))

    def _send(self, worker: int, data: bytes, files: Sequence[MemoryFile] = ()) -> None:
        with contextlib.suppress(ConnectionError):  # it died: `wait` is about to say so
            if not self._channels[worker].send_packed(data, files) and worker not in self._dead:
                self._selector.modify(self._channels[worker], selectors.EVENT_READ | selectors.EVENT_WRITE, worker)

    def attach(self, slot: Slot) -> None:
        """Let all processes map a slot."""
        self._slots[slot.number] = slot
        data = pack(Attach(slot.number, slot.size))
        for worker in range(self.size):
            self._send(worker, data, [slot.file])

    def detach(self, slot: int) -> None:
        """Let all processes forget a slot."""
        del self._slots[slot]
        data = pack(Detach(slot))
        for worker in range(self.size):
            self._send(worker, data)

    def wait(self, timeout: float | None) -> list[Event]:
        """Wait until a process has done something, `wake` is called, or so many seconds have passed."""
        events: list[Event] = []
        for key, mask in self._selector.select(timeout):
            if key.data is None:
                assert self._waker is not None
                self._waker.clear()
                continue
            worker: int = key.data
            if mask & selectors.EVENT_WRITE:
                self._flush(worker)
            if mask & selectors.EVENT_READ:
                events += self._receive(worker)
        return events

    def _flush(self, worker: int) -> None:
        with contextlib.suppress(ConnectionError):
            if self._channels[worker].flush():
                self._selector.modify(self._channels[worker], selectors.EVENT_READ, worker)

    def _receive(self, worker: int) -> list[Event]:
        try:
            messages = self._channels[worker].receive()
        except EOFError:
            self._dead.add(worker)
            self._selector.unregister(self._channels[worker])
            return [Event(worker, None, reason=self._how_it_ended(worker))]
        if messages and isinstance(messages[0][0], Ready):
            self._ready.add(worker)
        return [Event(worker, result, tuple(files)) for result, files in messages]

    def _how_it_ended(self, worker: int) -> str:
        process = self._processes[worker]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_GRACE)
        _kill(process)
        code: int | None = process.returncode
        if code is None:
            how = "closed its channel and can't be ended"
        elif code < 0:
            name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
            hint = " (the kernel does that when memory runs out)" if name == "SIGKILL" else ""
            how = f"was ended by {name}{hint}"
        else:
            how = f"ended with status {code}"
        return f"worker process {worker} (pid {process.pid}) {how}"

    def wake(self) -> None:
        """End a `wait`."""
        waker = self._waker
        if waker is not None:
            waker.set()

    def close(self) -> None:
        """End the processes: those at work have half a second, then they are killed."""
        for channel in self._channels.values():
            channel.close()
        for worker, process in self._processes.items():
            if worker not in self._ready:
                process.kill()  # it wouldn't look at its channel before it has started
        deadline = time.monotonic() + _END_GRACE
        for process in self._processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
        for process in self._processes.values():
            _kill(process)
        self._slots.clear()
        self._begun.clear()
        self._selector.close()
        self._waker = None


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_KILL_GRACE)


class _Waker:
    """Ends a select. Closed when nobody refers to it any more, so never while another thread is about to set it."""

    def __init__(self) -> None:
        self._file = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        return self._file

    def set(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it counts to 2**64 - 2
            os.eventfd_write(self._file, 1)

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._file)

    def __del__(self) -> None:
        os.close(self._file)
