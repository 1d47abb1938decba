"""Loading ahead of the consumer, by a thread that runs the scheduler."""

from __future__ import annotations

import contextlib
import os
import queue
import threading

from vidload.loader.pipeline import Finished, Key, Pipeline, Position
from vidload.loader.scheduler import Scheduler
from vidload.loader.stats import Stats
from vidload.loader.transfer import Sent, Transfer

__all__ = ["PrefetchPipeline"]

_Key = tuple[int, int, int]
"""(generation, epoch, step)."""

_LONGEST_WAIT = 0.5
"""Seconds after which a consumer looks up: Python may not see a signal that comes as a wait begins until it ends."""


class PrefetchPipeline(Pipeline):
    """Keeps a scheduler going, tells it where the consumer is, and keeps what it finishes.

    The consumer's thread writes its position, the scheduler's thread (named vidload-scheduler) adds what is ready; each
    looks at the other's values when it is woken. `queue.SimpleQueue` and the pool's `wake` may be used in signal
    handlers and finalizers, where a lock could be one that the interrupted code holds.

    Args:
        scheduler: Loads; started and closed here.
        transfer: Copies batches to the device; closed here.
        ahead: How many batches are copied ahead of the one in use.
        in_order: Whether batches are taken in the order's order, or as they are finished.
        stats: Told of every wait.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        transfer: Transfer,
        *,
        ahead: int,
        in_order: bool,
        stats: Stats,
    ) -> None:
        super().__init__(in_order, stats)
        self._scheduler = scheduler
        self._transfer = transfer
        self._ahead = ahead
        self._loaded: dict[_Key, Finished] = {}  # the scheduler thread's own
        self._ready: dict[_Key, Sent] = {}
        self._ends: dict[Key, int] = {}  # by generation and epoch: how many batches the epoch has
        self._left = (0, 0)  # of this generation, epochs below are of no interest any more, wherever the consumer is
        self._news: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        # A daemon: an interpreter that ends joins all other threads first, and nobody would tell this one to end.
        self._thread = threading.Thread(target=self._run, name="vidload-scheduler", daemon=True)

    # The consumer's side

    def start(self) -> None:
        """Start the workers, and loading."""
        self._thread.start()

    def _await(self, position: Position) -> tuple[Key, Finished] | None:
        generation, epoch, taken, _ = position
        while True:
            self.check_open()
            step = taken if self._in_order else self._first_ready(generation, epoch)
            sent = self._ready.get((generation, epoch, step))
            if sent is not None:
                break
            if self._ends.get((generation, epoch), taken + 1) <= taken:
                return None
            if self._failure is not None:
                raise self._failure
            with contextlib.suppress(queue.Empty):
                self._news.get(timeout=_LONGEST_WAIT)
        while not self._news.empty():  # older news would only wake the next wait in vain
            self._news.get()
        return (epoch, step), self._transfer.receive(sent)

    def _first_ready(self, generation: int, epoch: int) -> int:
        return next((key[2] for key in list(self._ready) if key[:2] == (generation, epoch)), -1)

    def _taken(self, key: Key) -> None:
        self._ready.pop((self._position.generation, *key), None)
        self._moved()

    def _moved(self) -> None:
        self._scheduler.wake()

    def leave(self, epoch: int) -> None:
        """Cancel what isn't loaded of an epoch."""
        if os.getpid() == self._process:
            self._left = max(self._left, (self._position.generation, epoch + 1))
            self._scheduler.wake()

    def close(self) -> None:
        """End the workers, and wait until they are gone; not in a process that was forked from theirs."""
        if os.getpid() != self._process:
            return
        self._closed = True
        self._news.put(None)
        self._scheduler.wake()
        if self._thread is not threading.current_thread():
            with contextlib.suppress(RuntimeError):  # it isn't started yet, and ends as soon as it is
                self._thread.join()

    # The scheduler's side

    def _run(self) -> None:
        try:
            self._transfer.enter()
            self._scheduler.start()
            while not self._closed:
                position = self._wanted()
                generation = position.generation
                for batches in (self._ready, self._loaded):
                    for key in list(batches):
                        if key[0] != generation or key[1] < position.epoch:
                            batches.pop(key, None)
                self._transfer.collect()
                if self._scheduler.is_over(position.epoch):
                    break
                for (epoch, step), finished in self._scheduler.turn(position):
                    self._loaded[generation, epoch, step] = finished
                self._send()
                self._board.update()
                self._ends = {(generation, epoch): steps for epoch, steps in self._scheduler.ends.items()}
                self._news.put(None)
        except BaseException as error:
            self._failure = error
        finally:
            self._news.put(None)
            self._scheduler.close()
            self._transfer.close()
            self._board.close()
            if self._closed:
                self._ready.clear()

    def _send(self) -> None:
        """Begin to copy what the consumer takes next."""
        for key in sorted(self._loaded) if self._in_order else list(self._loaded):
            if len(self._ready) < self._ahead or self._is_awaited(key):
                self._ready[key] = self._transfer.send(self._loaded.pop(key), key[1:])

    def _is_awaited(self, key: _Key) -> bool:
        """Whether the consumer may be waiting for just this batch."""
        generation, epoch, taken, _ = self._wanted()
        if self._in_order:
            return key == (generation, epoch, taken)
        return key[:2] == (generation, epoch) and self._first_ready(generation, epoch) < 0

    def _wanted(self) -> Position:
        """The consumer's position, or the start of the epoch after one that it left."""
        position, (generation, epoch) = self._position, self._left
        if generation == position.generation and epoch > position.epoch:
            return Position(generation, epoch, 0)
        return position
