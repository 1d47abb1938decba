"""What a worker does, wherever it runs: one task after another."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from vidload.clips.random import clip_uniform
from vidload.dataset import ClipDataset
from vidload.errors import SampleError, VidloadError
from vidload.loader.memory import Mapping
from vidload.loader.messages import ClipTask, CollateTask, Done, Failed, SampleTask, Task
from vidload.loader.span import Span

__all__ = ["Memory", "Runner", "as_vidload_error"]

Memory = Callable[[int], Mapping]
"""Gives a slot's memory by its number."""


class Runner:
    """Runs tasks on a data set.

    Args:
        dataset: The data set.
        collate_fn: Makes a batch of a list of samples; None for torch's default.
    """

    def __init__(self, dataset: Any, collate_fn: Callable[[list[Any]], Any] | None) -> None:
        self.dataset = dataset
        self.collate_fn = collate_fn

    def run(self, task: Task, worker: int, memory: Memory) -> Done | Failed:
        """Run a task; an error in it is a result too."""
        try:
            if isinstance(task, ClipTask):
                return self._clip(task, worker, memory)
            if isinstance(task, SampleTask):
                return self._sample(task, worker)
            return self._collate(task, worker)
        except Exception as error:
            return Failed(task.id, as_vidload_error(error, task))

    def _clip(self, task: ClipTask, worker: int, memory: Memory) -> Done:
        dataset: ClipDataset = self.dataset
        plan = dataset.plan(task.video, task.clip, clip_uniform(task.seed, task.epoch, task.sample))
        out = memory(task.slot).array(plan.shape, task.row * int(np.prod(plan.shape)))
        facts = dataset.decode(plan, out)
        times = facts.times
        return Done(
            task.id,
            facts,
            (
                Span("read", worker, task.epoch, task.step, times.started, times.read),
                Span("decode", worker, task.epoch, task.step, times.read, times.decoded),
            ),
        )

    def _sample(self, task: SampleTask, worker: int) -> Done:
        start = time.monotonic()
        if isinstance(self.dataset, ClipDataset):
            value = self.dataset.seeded_sample(task.sample, task.seed, task.epoch)
        else:
            value = self.dataset[task.sample]
        return Done(task.id, value, (Span("sample", worker, task.epoch, task.step, start, time.monotonic()),))

    def _collate(self, task: CollateTask, worker: int) -> Done:
        start = time.monotonic()
        value = (self.collate_fn or _default_collate())(task.samples)
        return Done(task.id, value, (Span("collate", worker, task.epoch, task.step, start, time.monotonic()),))


def _default_collate() -> Callable[[list[Any]], Any]:
    from torch.utils.data import default_collate

    return default_collate


def as_vidload_error(error: Exception, task: Task) -> VidloadError:
    """An error that user code raised in a task as a `SampleError` with its traceback; vidload's own as it is."""
    if type(error).__module__ == VidloadError.__module__ and isinstance(error, VidloadError):
        return error
    what = "collating" if isinstance(task, CollateTask) else f"sample {task.sample} in"
    wrapped = SampleError(
        f"{what} step {task.step} of epoch {task.epoch} raised {type(error).__name__}: {error}\n\n"
        f"Where it was raised:\n{''.join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()}"
    )
    wrapped.__cause__ = error
    return wrapped
