"""Which worker user code runs in."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

__all__ = ["WorkerInfo", "enter_worker", "get_worker_info"]

_local = threading.local()


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a data set may want to know of the worker it is in.

    Attributes:
        id: The worker's number, from 0. One that takes the place of a worker that died has its number.
        num_workers: How many there are.
        seed: The loader's seed.
        dataset: The worker's copy of the data set (the loader's own in a thread).
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


def get_worker_info() -> WorkerInfo | None:
    """The worker that this is called in; None in the loader's own threads, and with ``num_workers=0``."""
    info: WorkerInfo | None = getattr(_local, "info", None)
    return info


def enter_worker(info: WorkerInfo) -> None:
    """Say that this thread is a worker."""
    _local.info = info
