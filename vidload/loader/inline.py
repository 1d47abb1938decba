"""Loading in the caller, when a batch is asked for: ``num_workers=0``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vidload.clips.schedule import Schedule
from vidload.errors import VidloadError
from vidload.loader.assembly import Assembly
from vidload.loader.messages import Failed, Task
from vidload.loader.pipeline import Finished, Key, Pipeline
from vidload.loader.ring import Ring, Slot
from vidload.loader.runner import Runner
from vidload.loader.span import Span

__all__ = ["InlinePipeline"]


class InlinePipeline(Pipeline):
    """Loads one batch at a time, in the thread that asks for it.

    Args:
        schedule: Which samples make up which batch.
        runner: What loads them.
        assembly: How batches are made.
        trace: Called with every span.
    """

    def __init__(
        self, schedule: Schedule, runner: Runner, assembly: Assembly, *, trace: Callable[[Span], None] | None
    ) -> None:
        super().__init__(schedule.steps_per_epoch, trace)
        self._schedule = schedule
        self._runner = runner
        self._assembly = assembly
        # Slots for the batch in the making, the one in use, and the one before it that is let go a moment later.
        self._ring: Ring | None = Ring(assembly.slot_bytes, 3) if assembly.slot_bytes else None

    def start(self) -> None:
        """Nothing to start."""

    def _await(self, epoch: int, step: int) -> tuple[Key, Finished]:
        self._check_open()
        try:
            return (epoch, step), Finished(self._load(epoch, step))
        except VidloadError as error:
            return (epoch, step), Finished(error=error)

    def _load(self, epoch: int, step: int) -> Any:
        ring, slot, number = self._ring, None, -1
        if ring is not None:
            ring.retire()
            slot, _ = ring.take()
            number = slot.number
        samples = self._schedule.samples(epoch, step)
        results = [
            self._run(self._assembly.task(0, epoch, step, sample, number, row), slot)
            for row, sample in enumerate(samples.tolist())
        ]
        collate = self._assembly.collate(0, epoch, step, number, results)
        if collate is not None:
            results = [self._run(collate, slot), ()]
        return self._assembly.finish(epoch, step, samples, results, ring, slot)

    def _run(self, task: Task, slot: Slot | None) -> Any:
        def memory(number: int) -> Any:
            assert slot is not None
            return slot.mapping

        result = self._runner.run(task, 0, memory)
        if isinstance(result, Failed):
            raise result.error
        if self._trace is not None:
            for span in result.spans:
                self._trace(span)
        return result.value

    def _moved(self) -> None:
        """Nobody has to know."""

    def leave(self, epoch: int) -> None:
        """Nothing of it is loaded ahead."""

    def close(self) -> None:
        """Let go of the slots."""
        self._closed = True
        self._ring = None
