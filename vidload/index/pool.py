"""Demuxing many files at once, in processes of their own.

Processes, because demuxing takes Python work for every packet, and because libavformat sees files from anywhere: if one
of them brings it down, that file is reported and the rest is read. They are started as plain interpreters that import
one module, so a script needs no ``if __name__ == "__main__"`` and nothing is pickled.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event
from typing import IO, TypeAlias

import pyarrow as pa

from vidload.errors import NoVideoStreamError, UnreadableVideoError, WorkerError
from vidload.index.format import FACTS
from vidload.index.worker import FRAME, NO_VIDEO, READ, READY, UNREADABLE, read_facts

__all__ = ["Outcome", "demux_all"]

Outcome: TypeAlias = "pa.RecordBatch | UnreadableVideoError"
"""What became of a file: one row of `FACTS`, or why there is none."""

_START = "from vidload.index.worker import main; main()"

_AHEAD = 16
"""Files per worker that may be read before the one that is next in order; bounds what waits in memory."""


def demux_all(paths: Iterable[str], num_workers: int) -> Generator[Outcome, None, None]:
    """Demux files, several at a time.

    Args:
        paths: The files.
        num_workers: Processes; 0 reads in the calling process.

    Yields:
        What became of each file, in the order of `paths`.

    Raises:
        WorkerError: If a process can't be started.
    """
    if num_workers == 0:
        for path in paths:
            yield _outcome(*read_facts(path))
        return
    with _Pool(num_workers) as pool:
        waiting: deque[Future[Outcome]] = deque()
        for path in paths:
            waiting.append(pool.submit(path))
            if len(waiting) >= num_workers * _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _outcome(kind: bytes, content: bytes) -> Outcome:
    if kind == READ:
        return pa.ipc.read_record_batch(content, FACTS)
    message = content.decode("utf-8", "surrogateescape")
    return {UNREADABLE: UnreadableVideoError, NO_VIDEO: NoVideoStreamError}[kind](message)


class _DiedError(Exception):
    """The process ended while it read a file."""


class _Worker:
    """One process; used by one thread at a time."""

    def __init__(self) -> None:
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        path = [entry for entry in sys.path if isinstance(entry, str)]
        command = [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}; {_START}"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, bufsize=-1
        )
        self._ready = False

    def read(self, path: str) -> Outcome:
        if not self._ready:
            self._wait_until_ready()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(path).encode() + b"\n")
            self._process.stdin.flush()
            return _outcome(*self._answer())
        except (OSError, EOFError):
            raise _DiedError(_how_it_ended(self._process.wait())) from None

    def _wait_until_ready(self) -> None:
        try:
            kind, _ = self._answer()
        except EOFError:
            kind = b""
        if kind != READY:
            ended = _how_it_ended(self._process.wait())
            self._stderr.seek(0)
            last = self._stderr.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise WorkerError(
                f"a process that demuxes files could not start: it {ended}{f' ({last})' if last else ''}; "
                "num_workers=0 reads in this process"
            )
        self._ready = True

    def _answer(self) -> tuple[bytes, bytes]:
        assert self._process.stdout is not None
        head = self._process.stdout.read(FRAME.size)
        if len(head) < FRAME.size:
            raise EOFError
        kind, length = FRAME.unpack(head)
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


class _Pool:
    """Processes that read files, a thread for each; a context manager."""

    def __init__(self, num_workers: int) -> None:
        self._closing = Event()
        self._workers: set[_Worker] = set()
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._threads = ThreadPoolExecutor(num_workers, thread_name_prefix="vidload-index")
        self._num_workers = num_workers

    def __enter__(self) -> _Pool:
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

    def submit(self, path: str) -> Future[Outcome]:
        return self._threads.submit(self._read, path)

    def _start(self) -> _Worker:
        try:
            worker = _Worker()
        except OSError as error:
            raise WorkerError(f"a process that demuxes files could not start: {error}") from error
        self._workers.add(worker)
        return worker

    def _read(self, path: str) -> Outcome:
        worker = self._idle.get()
        try:
            return worker.read(path)
        except _DiedError as died:
            self._workers.discard(worker)
            worker.close()
            if not self._closing.is_set():
                worker = self._start()
            return UnreadableVideoError(f"{path}: can't be read as a video: the process that read it {died}")
        finally:
            self._idle.put(worker)
