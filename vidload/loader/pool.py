"""What the scheduler sees of its workers, be they processes or threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from vidload.loader.memory import MemoryFile
from vidload.loader.messages import Done, Failed, Ready, Task
from vidload.loader.ring import Slot

__all__ = ["Event", "Pool"]


@dataclass(frozen=True, slots=True)
class Event:
    """What a worker did: got ready, has a result with its files, or, without a result, died as `reason` says."""

    worker: int
    result: Ready | Done | Failed | None
    files: tuple[MemoryFile, ...] = ()
    reason: str = ""


class Pool(Protocol):
    """Some workers. All methods but `wake` are for one thread."""

    size: int

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

    def begun(self, worker: int) -> int:
        """Id of the task that a worker began last, alive or not; 0 for none."""
        ...

    def restart(self, worker: int) -> None:
        """Put a new worker in the place of one that died or hangs; nothing more is heard of the old one."""
        ...

    def wait(self, timeout: float | None) -> list[Event]:
        """Wait until a worker has done something, `wake` is called, or so many seconds have passed."""
        ...

    def wake(self) -> None:
        """End a `wait`, the next one if there is none.

        From any thread, signal handler or finalizer, at any time: it takes no lock.
        """
        ...

    def close(self) -> None:
        """End all workers, and wait until they are gone or half a second has passed."""
        ...
