"""Work on many files, in processes of their own that a file may crash or hang.

Processes, because the work holds Python's lock or crashes: if a file brings libavformat or libavcodec down, that file
is reported and the rest goes on. They are started as plain interpreters that import one module, so a script needs no
``if __name__ == "__main__"`` and nothing is pickled.

The parent writes one line of JSON per file to a process's standard input. The process answers on its standard output by
one frame: a kind (one byte), a length (eight bytes, little endian) and that many bytes. It ends when its input does, so
it never outlives its parent.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event, Timer
from typing import IO, Any

from vidload.errors import WorkerError

__all__ = ["DIED", "TIMEOUT", "Answer", "Processes", "answers", "serve"]

Answer = tuple[bytes, bytes]
"""Kind of an answer, and what follows."""

DIED = b"x"
"""Kind of the answer for a file whose process died or took too long; how, in UTF-8, follows."""
TIMEOUT = 600.0
"""Seconds that a file may take by default. Ten hours of film are demuxed in 7 (docs/benchmarks.md)."""

_START = "from {module} import main; main()"
_READY = b"!"
_FRAME = struct.Struct("<cQ")
_AHEAD = 16
"""Files per process that may be done before the one that is next in order; bounds what waits in memory."""


def answers(
    module: str, requests: Iterable[Sequence[Any]], num_workers: int, *, timeout: float = TIMEOUT
) -> Generator[Answer, None, None]:
    """Let processes answer requests, several at a time.

    Args:
        module: What the processes import; its ``main`` calls `serve`.
        requests: Lists that JSON can hold, one for each file.
        num_workers: Processes, at least 1.
        timeout: Seconds that a request may take before its process is killed.

    Yields:
        An answer for each request, in their order.

    Raises:
        WorkerError: If a process can't be started.
    """
    with Processes(module, num_workers, timeout) as pool:
        waiting: deque[Future[Answer]] = deque()
        for request in requests:
            waiting.append(pool.submit(request))
            if len(waiting) >= num_workers * _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def serve(answer: Callable[[list[Any]], Answer]) -> None:
    """Be such a process: answer every line of standard input until there is none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which then ends this process
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # what a library prints must not come between the answers
        kind, content = _READY, b""
        while True:
            out.write(_FRAME.pack(kind, len(content)) + content)
            out.flush()
            line = sys.stdin.buffer.readline()
            if not line:
                return
            kind, content = answer(json.loads(line))


class _DiedError(Exception):
    """The process ended while it worked on a file."""


class _Worker:
    """One process; used by one thread at a time."""

    def __init__(self, module: str, timeout: float) -> None:
        self._timeout = timeout
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        path = [entry for entry in sys.path if isinstance(entry, str)]
        start = _START.replace("{module}", module)
        command = [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}; {start}"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, bufsize=-1
        )
        self._ready = False

    def ask(self, request: Sequence[Any]) -> Answer:
        if not self._ready:
            self._wait_until_ready()
        late = Event()
        watch = Timer(self._timeout, self._stop, [late])
        watch.daemon = True
        watch.start()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(list(request)).encode() + b"\n")
            self._process.stdin.flush()
            return self._answer()
        except (OSError, EOFError):
            how = _how_it_ended(self._process.wait())
            if late.is_set():
                how = f"took longer than {self._timeout:g} s and was stopped"
            raise _DiedError(how) from None
        finally:
            watch.cancel()

    def _stop(self, late: Event) -> None:
        late.set()
        self._process.kill()

    def _wait_until_ready(self) -> None:
        try:
            kind, _ = self._answer()
        except EOFError:
            kind = b""
        if kind != _READY:
            ended = _how_it_ended(self._process.wait())
            self._stderr.seek(0)
            last = self._stderr.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise WorkerError(
                f"a process that reads files could not start: it {ended}{f' ({last})' if last else ''}; "
                "num_workers=0 reads in this process"
            )
        self._ready = True

    def _answer(self) -> Answer:
        assert self._process.stdout is not None
        head = self._process.stdout.read(_FRAME.size)
        if len(head) < _FRAME.size:
            raise EOFError
        kind, length = _FRAME.unpack(head)
        content = self._process.stdout.read(length)
        if len(content) < length:
            raise EOFError
        return kind, content

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdout, self._process.stdin, self._stderr):
            try:
                if stream is not None:
                    stream.close()
            except OSError:  # what was written to a process that is gone
                pass


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit status {code}"
    try:
        name = f", {signal.Signals(-code).name}"
    except ValueError:
        name = ""
    return f"crashed (signal {-code}{name})"


class Processes:
    """Processes that answer, a thread for each; a context manager.

    Args:
        module: What they import; see `answers`.
        num_workers: How many.
        timeout: Seconds that a request may take before its process is killed.

    Raises:
        WorkerError: If one can't be started.
    """

    def __init__(self, module: str, num_workers: int, timeout: float) -> None:
        self._module = module
        self._timeout = timeout
        self._closing = Event()
        self._workers: set[_Worker] = set()
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._threads = ThreadPoolExecutor(num_workers, thread_name_prefix="vidload-files")
        self._num_workers = num_workers

    def __enter__(self) -> Processes:
        try:
            for _ in range(self._num_workers):
                self._idle.put(self._start())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        for worker in tuple(self._workers):
            worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def submit(self, request: Sequence[Any]) -> Future[Answer]:
        """Have a request answered by the next process that is free."""
        return self._threads.submit(self._ask, request)

    def _start(self) -> _Worker:
        try:
            worker = _Worker(self._module, self._timeout)
        except OSError as error:
            raise WorkerError(f"a process that reads files could not start: {error}") from error
        self._workers.add(worker)
        return worker

    def _ask(self, request: Sequence[Any]) -> Answer:
        worker = self._idle.get()
        try:
            return worker.ask(request)
        except _DiedError as died:
            self._workers.discard(worker)
            worker.close()
            if not self._closing.is_set():
                worker = self._start()
            return DIED, str(died).encode()
        finally:
            self._idle.put(worker)
