"""Demuxing many files at once, in processes of their own: see `vidload.index.processes`."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import tee
from typing import TypeAlias

import pyarrow as pa

from vidload.errors import NoVideoStreamError, UnreadableVideoError
from vidload.index.format import FACTS
from vidload.index.processes import DIED, TIMEOUT, answers
from vidload.index.worker import NO_VIDEO, READ, UNREADABLE, Request, read_facts

__all__ = ["Outcome", "demux_all"]

Outcome: TypeAlias = "pa.RecordBatch | UnreadableVideoError"
"""What became of a file: one row of `FACTS`, or why there is none."""

_WORKER = "vidload.index.worker"


def demux_all(
    requests: Iterable[Request], num_workers: int, *, timeout: float = TIMEOUT
) -> Generator[Outcome, None, None]:
    """Demux files, several at a time.

    Args:
        requests: The files, and how.
        num_workers: Processes; 0 reads in the calling process.
        timeout: Seconds that a file may take before its process is killed.

    Yields:
        What became of each file, in their order.

    Raises:
        WorkerError: If a process can't be started.
    """
    if num_workers == 0:
        for request in requests:
            yield _outcome(request.path, *read_facts(request))
        return
    asked, named = tee(requests)
    for request, answer in zip(named, answers(_WORKER, asked, num_workers, timeout=timeout), strict=True):
        yield _outcome(request.path, *answer)


def _outcome(path: str, kind: bytes, content: bytes) -> Outcome:
    if kind == READ:
        return pa.ipc.read_record_batch(content, FACTS)
    message = content.decode("utf-8", "surrogateescape")
    if kind == DIED:
        return UnreadableVideoError(f"{path}: can't be read as a video: the process that read it {message}")
    return {UNREADABLE: UnreadableVideoError, NO_VIDEO: NoVideoStreamError}[kind](message)
