"""Putting a loader's pipeline together."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cloudpickle

from vidload.clips.order import Order
from vidload.dataset import ClipDataset
from vidload.errors import ArgumentError, SendError
from vidload.loader.assembly import Assembly, ClipAssembly, SampleAssembly
from vidload.loader.device import Device, Host
from vidload.loader.faults import Faults, OnError
from vidload.loader.inline import InlinePipeline
from vidload.loader.pipeline import Pipeline
from vidload.loader.pool import Pool
from vidload.loader.prefetch import PrefetchPipeline
from vidload.loader.processes import ProcessPool
from vidload.loader.runner import Runner
from vidload.loader.scheduler import Scheduler
from vidload.loader.span import Span
from vidload.loader.threads import ThreadPool
from vidload.loader.transfer import Transfer

__all__ = ["Parts", "make_pipeline"]


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Everything that a pipeline is made of; see `vidload.VideoLoader` for what each is."""

    dataset: Any
    order: Order
    epochs: int | None
    num_workers: int
    worker_kind: str
    depth: int
    seed: int
    in_order: bool
    collate_fn: Callable[[list[Any]], Any] | None
    worker_init_fn: Callable[[int], Any] | None
    on_error: OnError
    max_error_rate: float
    error_log: str | os.PathLike[str] | None
    clip_timeout: float | None
    rank: int
    device: Device
    device_prefetch: int
    device_transform: Callable[[Any], Any] | None
    trace: Callable[[Span], None] | None


def make_pipeline(parts: Parts) -> Pipeline:
    """A pipeline that isn't started.

    Raises:
        ArgumentError: If an argument can't work.
        SendError: If the data set or a function can't be sent to a worker process.
    """
    dataset = parts.dataset
    in_processes = parts.num_workers > 0 and parts.worker_kind == "process"
    assembly: Assembly
    if isinstance(dataset, ClipDataset) and dataset.clip_shape is not None and dataset.transform is None:
        if parts.collate_fn is not None:
            raise ArgumentError(
                "collate_fn: clips of one shape are decoded where the batch lies, so there is nothing to collate; "
                "leave it out, or give the ClipDataset a transform (the identity will do) to get samples"
            )
        assembly = ClipAssembly(dataset, parts.seed)
    else:
        assembly = SampleAssembly(parts.seed, packed=in_processes, default_collate=parts.collate_fn is None)
    faults = Faults(
        parts.on_error,
        parts.max_error_rate,
        parts.error_log,
        parts.order,
        lambda sample: _describe(dataset, sample),
        parts.rank,
    )
    runner = Runner(
        dataset,
        parts.collate_fn,
        parts.worker_init_fn,
        num_workers=parts.num_workers,
        seed=parts.seed,
        seeds_global=in_processes,
    )
    transfer = Transfer(parts.device, parts.device_transform)
    pin = parts.device.pin if isinstance(assembly, ClipAssembly) and not isinstance(parts.device, Host) else None
    if parts.num_workers == 0:
        return InlinePipeline(
            parts.order, runner, assembly, faults, transfer, pin=pin, in_order=parts.in_order, trace=parts.trace
        )
    size = parts.num_workers
    pool: Pool = ProcessPool(_pickled(runner), size) if in_processes else ThreadPool(runner, size)
    scheduler = Scheduler(
        parts.order,
        parts.epochs,
        pool,
        assembly,
        faults,
        depth=parts.depth,
        timeout=parts.clip_timeout,
        pin=pin,
        trace=parts.trace,
    )
    # Where nothing is copied or changed, all that is loaded may be ready.
    at_once = isinstance(parts.device, Host) and parts.device_transform is None
    ahead = parts.depth if at_once else parts.device_prefetch
    return PrefetchPipeline(scheduler, transfer, ahead=ahead, in_order=parts.in_order, trace=parts.trace)


def _describe(dataset: Any, sample: Any) -> dict[str, Any]:
    if not isinstance(dataset, ClipDataset):
        return {}
    try:
        row, clip = dataset.locate(sample)
    except (IndexError, TypeError):  # a sampler gave something else
        return {}
    return {"video": dataset.index[row].path, "video_id": row, "clip": clip}


def _pickled(runner: Runner) -> bytes:
    try:
        data = cloudpickle.dumps(runner, protocol=5)
    except Exception as error:
        raise SendError(
            f"the data set {type(runner.dataset).__name__!r} (or its transform, collate_fn or worker_init_fn) can't be "
            f"sent to a worker process: {error}. Open files, locks and connections in __getitem__ rather than in "
            "__init__, or use worker_kind='thread'"
        ) from error
    return bytes(data)
