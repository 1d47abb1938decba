"""What a loader and its workers say to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vidload.dataset import ClipFacts
from vidload.errors import VidloadError
from vidload.loader.span import Span

__all__ = [
    "Attach",
    "ClipTask",
    "CollateTask",
    "Detach",
    "Done",
    "Failed",
    "PackedSample",
    "Ready",
    "SampleTask",
    "Start",
    "Task",
]


@dataclass(frozen=True, slots=True)
class Start:
    """First message to a worker process: the user's code, and where to import what it needs from.

    Attributes:
        runner: A pickled `vidload.loader.runner.Runner`.
        path: The loader's `sys.path`.
    """

    runner: bytes
    path: list[str]


@dataclass(frozen=True, slots=True)
class Attach:
    """A slot that tasks will name; its memory comes along as a file. `size` in bytes."""

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


@dataclass(frozen=True, slots=True)
class SampleTask:
    """Take one sample of any other data set; from a process, its large buffers go into a row of a slot."""

    id: int
    epoch: int
    step: int
    sample: int
    slot: int
    row: int
    seed: int


@dataclass(frozen=True, slots=True)
class PackedSample:
    """A pickled sample; its large buffers lie one after another from `offset` of the slot on.

    Attributes:
        data: The pickle, protocol 5.
        lengths: Bytes of each buffer outside of it.
        offset: Where in the slot's memory the first one begins.
    """

    data: bytes
    lengths: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class CollateTask:
    """Make one batch of samples: packed ones in a process, the samples themselves in a thread."""

    id: int
    epoch: int
    step: int
    slot: int
    samples: list[Any]


Task = ClipTask | SampleTask | CollateTask


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker has loaded the user's code."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task's result: facts of a clip, a sample or a batch (packed ones from a process)."""

    id: int
    value: ClipFacts | Any
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """A task's error; of the worker's start where `id` is None."""

    id: int | None
    error: VidloadError
