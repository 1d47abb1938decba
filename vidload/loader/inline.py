"""Loading in the caller, when a batch is asked for: ``num_workers=0``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from vidload.clips.order import Order, as_list
from vidload.errors import ErrorRateExceeded, VidloadError
from vidload.loader.assembly import Assembly, RowsError
from vidload.loader.faults import Faults
from vidload.loader.memory import Mapping
from vidload.loader.messages import Done, Failed, Task
from vidload.loader.pipeline import Finished, Key, Pipeline, Position
from vidload.loader.ring import Ring, Slot
from vidload.loader.runner import Runner
from vidload.loader.stats import Stats
from vidload.loader.transfer import Transfer

__all__ = ["InlinePipeline"]


class InlinePipeline(Pipeline):
    """Loads one batch at a time, in the thread that asks for it.

    Args:
        order: Which samples make up which batch.
        runner: What loads them.
        assembly: How batches are made.
        faults: What becomes of samples that can't be loaded.
        transfer: Copies batches to the device.
        pin: Called with the memory of every new slot that batches will be copied from; None where none is.
        in_order: Whether a state may hold batches that were taken out of order.
        stats: Told of every span.
    """

    def __init__(
        self,
        order: Order,
        runner: Runner,
        assembly: Assembly,
        faults: Faults,
        transfer: Transfer,
        *,
        pin: Callable[[Mapping], None] | None = None,
        in_order: bool,
        stats: Stats,
    ) -> None:
        super().__init__(in_order, stats)
        self._order = order
        self._runner = runner
        self._assembly = assembly
        self._faults = faults
        self._transfer = transfer
        self._pin = pin
        self._failure: ErrorRateExceeded | None = None
        # Slots for the batch in the making, the one in use, and the one before it that is let go a moment later.
        self._ring: Ring | None = Ring(3) if assembly.row_bytes else None

    def start(self) -> None:
        """Nothing to start."""

    def _await(self, position: Position) -> tuple[Key, Finished] | None:
        if self._failure is not None:
            raise self._failure
        self._board.update()
        epoch, step = position.epoch, position.taken
        if step >= self._order.steps(epoch):
            return None
        if not self._in_order:
            step = next(number for number in range(step + 1) if number not in position.done)
        try:
            return (epoch, step), self._transfer.receive(self._transfer.send(self._load(epoch, step), (epoch, step)))
        except ErrorRateExceeded as error:
            self._failure = error
            raise
        except VidloadError as error:
            return (epoch, step), Finished(error=error)

    def _load(self, epoch: int, step: int) -> Finished:
        ring, slot, number = self._ring, None, -1
        samples = as_list(self._order.samples(epoch, step))
        if ring is not None:
            ring.retire()
            self._transfer.collect()
            slot, new = ring.take(len(samples) * self._assembly.row_bytes)
            if new and self._pin is not None:
                self._pin(slot.mapping)
            number = slot.number
        results: list[Any] = [None] * len(samples)
        attempts = [0] * len(samples)

        def replace(row: int, error: VidloadError) -> None:
            found = self._faults.replacement(epoch, step, row, samples[row], attempts[row], error)
            if found is None:
                raise error
            (samples[row],) = found
            attempts[row] += 1

        def load(rows: Iterable[int]) -> None:
            for row in rows:
                while True:
                    result = self._run(self._assembly.task(0, epoch, step, samples[row], number, row), slot)
                    if isinstance(result, Done):
                        results[row] = result.value
                        break
                    replace(row, result.error)

        load(range(len(samples)))
        collate = self._assembly.collate(0, epoch, step, number, results)
        if collate is not None:
            result = self._run(collate, slot)
            if isinstance(result, Failed):
                raise result.error
            results = [result.value, ()]
        repeated = self._order.repeated(epoch, step)
        while True:
            try:
                batch = self._assembly.finish(epoch, step, samples, repeated, results, ring, slot)
                break
            except RowsError as failed:
                for row in failed.errors.keys() - failed.again:
                    replace(row, failed.errors[row])
                load(failed.errors)
        self._faults.count(len(samples))
        return Finished(batch, repeated=repeated)

    def _run(self, task: Task, slot: Slot | None) -> Done | Failed:
        def memory(number: int) -> Any:
            assert slot is not None
            return slot.mapping

        result = self._runner.run(task, 0, memory)
        if isinstance(result, Done):
            for span in result.spans:
                self._stats.observe(span)
        return result

    def _moved(self) -> None:
        """Nobody has to know."""

    def leave(self, epoch: int) -> None:
        """Nothing of it is loaded ahead."""

    def close(self) -> None:
        """Let go of the slots."""
        self._closed = True
        self._transfer.close()
        self._assembly.close()
        self._board.close()
        self._ring = None
