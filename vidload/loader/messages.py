"""What a loader and its workers say to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vidload.dataset import ClipFacts
from vidload.errors import VidloadError
from vidload.loader.parcel import Parcel
from vidload.loader.span import Span
from vidload.transforms.planar import Wire

__all__ = [
    "Attach",
    "ClipTask",
    "CollateTask",
    "Detach",
    "Done",
    "Failed",
    "ReadTask",
    "Ready",
    "SampleTask",
    "Start",
    "Task",
]


@dataclass(frozen=True, slots=True)
class Start:
    """First message to a worker process: the user's code, as a pickled `vidload.loader.runner.Runner`."""

    runner: bytes


@dataclass(frozen=True, slots=True)
class Attach:
    """A slot that tasks will name; its memory, `size` bytes, comes along as a file."""

    slot: int
    size: int


@dataclass(frozen=True, slots=True)
class Detach:
    """A slot that no task will name again."""

    slot: int


@dataclass(frozen=True, slots=True)
class ClipTask:
    """Decode one clip into a row of a slot. `video` and `clip` are where `sample` is found in the index."""

    id: int
    epoch: int
    step: int
    sample: int
    slot: int
    row: int
    video: int
    clip: int
    seed: int
    wire: Wire


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Read one clip's slice, for a backend that decodes on the device; or decode it, if `on_cpu` or that can't.

    From a process, what is read goes into a row of a slot.
    """

    id: int
    epoch: int
    step: int
    sample: int
    slot: int
    row: int
    video: int
    clip: int
    seed: int
    device_type: str
    on_cpu: bool


@dataclass(frozen=True, slots=True)
class SampleTask:
    """Take one sample of any other data set; from a process, its large buffers go into a row of a slot."""

    id: int
    epoch: int
    step: int
    sample: Any
    slot: int
    row: int
    seed: int


@dataclass(frozen=True, slots=True)
class CollateTask:
    """Make one batch of samples: the samples themselves, or, for a process, parcels in a slot."""

    id: int
    epoch: int
    step: int
    slot: int
    samples: list[Parcel] | list[Any]


Task = ClipTask | ReadTask | SampleTask | CollateTask


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker has loaded the user's code."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task's result: facts of a clip, a sample or a batch (parcels of those from a process)."""

    id: int
    value: ClipFacts | Parcel | Any
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """A task's error; of the worker's start where `id` is None."""

    id: int | None
    error: VidloadError
