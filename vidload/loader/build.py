"""Putting a loader's pipeline together."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cloudpickle

from vidload.clips.order import Order
from vidload.dataset import ClipDataset
from vidload.decode.device import DEVICE_DECODERS, decodes_on_device
from vidload.decode.encoded import DeviceDecoder
from vidload.errors import ArgumentError, SendError
from vidload.loader.assembly import Assembly, ClipAssembly, SampleAssembly
from vidload.loader.device import Device, Host
from vidload.loader.device_clips import DeviceClipAssembly
from vidload.loader.faults import Faults, OnError
from vidload.loader.inline import InlinePipeline
from vidload.loader.pipeline import Pipeline
from vidload.loader.pixels import ClipPixels
from vidload.loader.pool import Pool
from vidload.loader.prefetch import PrefetchPipeline
from vidload.loader.processes import ProcessPool
from vidload.loader.runner import Runner
from vidload.loader.scheduler import Scheduler
from vidload.loader.stats import Stats
from vidload.loader.threads import ThreadPool
from vidload.loader.transfer import Transfer
from vidload.transforms.pixels import DeviceTransform
from vidload.transforms.planar import Wire

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
    pixel_transform: DeviceTransform | None
    wire: Wire
    stats: Stats


def make_pipeline(parts: Parts) -> Pipeline:
    """A pipeline that isn't started.

    Raises:
        ArgumentError: If an argument can't work.
        SendError: If the data set or a function can't be sent to a worker process.
    """
    dataset = parts.dataset
    in_processes = parts.num_workers > 0 and parts.worker_kind == "process"
    assembly, transform = _make_assembly(parts, in_processes)
    faults = Faults(
        parts.on_error,
        parts.max_error_rate,
        parts.error_log,
        parts.order,
        lambda sample: _describe(dataset, sample),
        parts.rank,
        parts.stats,
    )
    runner = Runner(
        dataset,
        parts.collate_fn,
        parts.worker_init_fn,
        num_workers=parts.num_workers,
        seed=parts.seed,
        seeds_global=in_processes,
    )
    transfer = Transfer(parts.device, transform, parts.stats)
    pin = parts.device.pin if isinstance(assembly, ClipAssembly) and not isinstance(parts.device, Host) else None
    if parts.num_workers == 0:
        return InlinePipeline(
            parts.order, runner, assembly, faults, transfer, pin=pin, in_order=parts.in_order, stats=parts.stats
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
        stats=parts.stats,
    )
    # Where nothing is copied or changed, all that is loaded may be ready.
    at_once = isinstance(parts.device, Host) and transform is None
    ahead = parts.depth if at_once else parts.device_prefetch
    return PrefetchPipeline(scheduler, transfer, ahead=ahead, in_order=parts.in_order, stats=parts.stats)


def _make_assembly(parts: Parts, in_processes: bool) -> tuple[Assembly, Callable[[Any], Any] | None]:
    """How batches are made, and what is done with them on the device."""
    dataset, torch_device = parts.dataset, parts.device.place
    transform = parts.device_transform
    if not isinstance(dataset, ClipDataset) or dataset.clip_shape is None or dataset.transform is not None:
        _check_samples(parts)
        return SampleAssembly(parts.seed, packed=in_processes, default_collate=parts.collate_fn is None), transform
    if parts.collate_fn is not None:
        raise ArgumentError(
            "collate_fn: clips of one shape are decoded where the batch lies, so there is nothing to collate; leave it "
            "out, or give the ClipDataset a transform (the identity will do) to get samples"
        )
    on_device = decodes_on_device(dataset.decoder, torch_device.type)
    if on_device and parts.wire != "rgb":
        raise ArgumentError(f"wire={parts.wire!r} with decoder={dataset.decoder!r}: it decodes on the device already")
    pixels = None
    if parts.pixel_transform is not None or parts.wire != "rgb":
        transform = pixels = ClipPixels(parts.pixel_transform, transform, parts.seed)
    if not on_device:
        return ClipAssembly(dataset, parts.seed, dataset.wire(parts.wire), pixels, parts.stats), transform

    def make() -> DeviceDecoder:
        return DEVICE_DECODERS[dataset.decoder].make(str(torch_device))

    assembly = DeviceClipAssembly(
        dataset, parts.seed, make, torch_device, pixels=pixels, packed=in_processes, stats=parts.stats
    )
    return assembly, transform


def _check_samples(parts: Parts) -> None:
    """Refuse what only clips of one shape can have."""
    why = "a ClipDataset with a size and without a transform"
    if parts.pixel_transform is not None:
        raise ArgumentError(f"device_transform: a DeviceTransform is for {why}; give a function of the batch")
    if parts.wire != "rgb":
        raise ArgumentError(f"wire={parts.wire!r} is for {why}")
    if isinstance(parts.dataset, ClipDataset) and parts.dataset.decoder == "dali":
        raise ArgumentError(f"decoder='dali' is for {why}")


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
