"""What a worker does, wherever it runs: one task after another."""

from __future__ import annotations

import hashlib
import math
import random
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from vidload.clips.random import clip_uniform
from vidload.dataset import ClipDataset, ClipFacts
from vidload.errors import SampleError, VidloadError, WorkerError
from vidload.loader.info import WorkerInfo, enter_worker
from vidload.loader.messages import ClipTask, CollateTask, Done, Failed, ReadTask, SampleTask, Task
from vidload.loader.span import Span

__all__ = ["Memory", "Runner", "as_vidload_error"]


class Slotted(Protocol):
    """Memory of a slot, or what stands for it."""

    def array(self, shape: tuple[int, ...], offset: int = 0) -> npt.NDArray[np.uint8]:
        """The memory from a byte offset on as uint8 of a shape."""
        ...


Memory = Callable[[int], Slotted]
"""Gives a slot's memory by its number."""


class Runner:
    """Runs tasks on a data set.

    Args:
        dataset: The data set.
        collate_fn: Makes a batch of a list of samples; None for torch's default.
        worker_init_fn: Called with the worker's number when one starts.
        num_workers: How many workers there are.
        seed: The loader's.
        seeds_global: Whether the global random generators are seeded for each sample: not in the loader's own process.
    """

    def __init__(
        self,
        dataset: Any,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        worker_init_fn: Callable[[int], Any] | None = None,
        *,
        num_workers: int = 0,
        seed: int = 0,
        seeds_global: bool = False,
    ) -> None:
        self.dataset = dataset
        self.collate_fn = collate_fn
        self._worker_init_fn = worker_init_fn
        self._num_workers = num_workers
        self._seed = seed
        self._seeds_global = seeds_global

    def enter(self, worker: int) -> Failed | None:
        """Become a worker; the error if the user's `worker_init_fn` raises one."""
        enter_worker(WorkerInfo(worker, self._num_workers, self._seed, self.dataset))
        try:
            if self._worker_init_fn is not None:
                self._worker_init_fn(worker)
        except Exception as error:
            where = "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()
            message = f"worker_init_fn raised {type(error).__name__}: {error}\n\nWhere it was raised:\n{where}"
            return Failed(None, WorkerError(message))
        return None

    def run(self, task: Task, worker: int, memory: Memory) -> Done | Failed:
        """Run a task; an error in it is a result too."""
        try:
            if isinstance(task, ClipTask):
                return self._clip(task, worker, memory)
            if isinstance(task, ReadTask):
                return self._read(task, worker)
            if isinstance(task, SampleTask):
                return self._sample(task, worker)
            return self._collate(task, worker)
        except Exception as error:
            return Failed(task.id, as_vidload_error(error, task))

    def _clip(self, task: ClipTask, worker: int, memory: Memory) -> Done:
        dataset: ClipDataset = self.dataset
        plan = dataset.plan(task.video, task.clip, clip_uniform(task.seed, task.epoch, task.sample))
        shape = plan.wire_shape(task.wire)
        out = memory(task.slot).array(shape, task.row * math.prod(shape))
        facts = dataset.decode(plan, out, task.wire)
        return Done(task.id, facts, _spans_of(facts, worker, task))

    def _read(self, task: ReadTask, worker: int) -> Done:
        dataset: ClipDataset = self.dataset
        plan = dataset.plan(task.video, task.clip, clip_uniform(task.seed, task.epoch, task.sample))
        facts, clip = dataset.read(plan, task.device_type, on_cpu=task.on_cpu)
        return Done(task.id, (facts, clip), _spans_of(facts, worker, task))

    def _sample(self, task: SampleTask, worker: int) -> Done:
        start = time.monotonic()
        if isinstance(self.dataset, ClipDataset):
            value = self.dataset.seeded_sample(task.sample, task.seed, task.epoch)
        else:
            if self._seeds_global:
                _seed_global(task)
            value = self.dataset[task.sample]
        return Done(task.id, value, (Span("sample", worker, task.epoch, task.step, start, time.monotonic()),))

    def _collate(self, task: CollateTask, worker: int) -> Done:
        start = time.monotonic()
        value = (self.collate_fn or _default_collate())(task.samples)
        return Done(task.id, value, (Span("collate", worker, task.epoch, task.step, start, time.monotonic()),))


def _spans_of(facts: ClipFacts, worker: int, task: ClipTask | ReadTask) -> tuple[Span, ...]:
    times = facts.times
    spans = [Span("read", worker, task.epoch, task.step, times.started, times.read)]
    if times.decoded > times.read:
        converting = times.decoded - (0.0 if times.work is None else times.work.convert)
        spans.append(Span("decode", worker, task.epoch, task.step, times.read, converting))
        spans.append(Span("convert", worker, task.epoch, task.step, converting, times.decoded))
    return tuple(spans)


def _seed_global(task: SampleTask) -> None:
    """Seed what user code may draw from, so that a sample doesn't depend on what its worker did before."""
    word = int.from_bytes(
        hashlib.blake2b(repr((task.seed, task.epoch, task.step, task.row)).encode(), digest_size=8).digest(), "little"
    )
    random.seed(word)
    np.random.seed(word & 0xFFFFFFFF)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(word & 0x7FFFFFFFFFFFFFFF)


def _default_collate() -> Callable[[list[Any]], Any]:
    from torch.utils.data import default_collate

    return default_collate


def as_vidload_error(error: Exception, task: Task) -> VidloadError:
    """An error that user code raised in a task as a `SampleError` with its traceback; vidload's own as it is."""
    if type(error).__module__ == VidloadError.__module__ and isinstance(error, VidloadError):
        if error.__traceback__ is not None and not hasattr(error, "__notes__"):
            # Python 3.11 and newer show notes; the traceback itself doesn't travel between processes.
            lines = "".join(traceback.format_tb(error.__traceback__)).rstrip()
            error.__dict__["__notes__"] = [f"Where a worker raised it:\n{lines}"]
        return error
    what = "collating" if isinstance(task, CollateTask) else f"sample {task.sample} in"
    wrapped = SampleError(
        f"{what} step {task.step} of epoch {task.epoch} raised {type(error).__name__}: {error}\n\n"
        f"Where it was raised:\n{''.join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()}"
    )
    wrapped.__cause__ = error
    return wrapped
