"""Data sets in which workers die, hang or raise at chosen samples, and what runs over them gave.

Worker processes import this module, so it imports no torch and no pytest.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vidload.clips.samplers import RandomClips
from vidload.index.video import Video

RELEASED = threading.Event()
"""Set by a test to end the threads that it let hang."""

Fault = Callable[[], None]


def die() -> None:
    """Die as by the kernel's hand when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def crash() -> None:
    """Die as a decoder does that reads where nothing is."""
    ctypes.string_at(0)


def hang() -> None:
    """Wait for what never comes (for a test's thread: until it is released)."""
    RELEASED.wait()


def stop() -> None:
    """Stop with all threads, as in a decoder that holds the GIL."""
    os.kill(os.getpid(), signal.SIGSTOP)


def fail() -> None:
    """Raise."""
    raise ValueError("out of luck")


class Marks:
    """Counts, over all processes, how often something was reached: by files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: object) -> int:
        """Count one more; returns which it is, from 1."""
        for number in count(1):
            try:
                os.close(os.open(self.folder / f"{name}.{number}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return number
        raise AssertionError

    def count(self, name: object) -> int:
        return len(list(self.folder.glob(f"{name}.*")))


@dataclass(frozen=True)
class Fate:
    """What happens at some samples, always or a few times each.

    Attributes:
        at: The samples.
        fault: What happens there.
        folder: Where it is marked.
        times: How often it happens at each; None for always.
    """

    at: tuple[Any, ...]
    fault: Fault
    folder: Path
    times: int | None = None

    def meet(self, sample: object) -> None:
        if sample in self.at:
            number = Marks(self.folder).add(sample)
            if self.times is None or number <= self.times:
                self.fault()

    def met(self, sample: object) -> int:
        """How often it was met, where it is counted."""
        return Marks(self.folder).count(sample)


@dataclass
class Arrays:
    """Large arrays and random numbers; a data set."""

    count: int
    fate: Fate | None = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, sample: int) -> dict[str, Any]:
        if self.fate is not None:
            self.fate.meet(sample)
        return {
            "sample": sample,
            "large": np.random.default_rng(sample).integers(0, 255, 20_000, np.uint8),
            "drawn": random.random(),
        }


@dataclass
class Plain:
    """Numbers alone; a data set."""

    count: int
    fate: Fate | None = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, sample: int) -> int:
        if self.fate is not None:
            self.fate.meet(sample)
        return sample


@dataclass(frozen=True)
class FatefulClips(RandomClips):
    """A sampler of clips under a fate, by (row of the video, clip)."""

    fate: Fate | None = None

    def frames(self, video: Video, clip: int, uniform: Callable[[], float]) -> npt.NDArray[np.int64]:
        if self.fate is not None:
            self.fate.meet((video.id, clip))
        return super().frames(video, clip, uniform)


@dataclass
class LoadedBy(Plain):
    """Numbers whose loading in a worker calls a function first; it is marked as ``load``."""

    load: Fault = fail
    folder: Path = Path()

    def __reduce__(self) -> Any:
        return _load, (self.count, self.load, self.folder)


def _load(count: int, load: Fault, folder: Path) -> LoadedBy:
    Marks(folder).add("load")
    load()
    return LoadedBy(count, None, load, folder)


@dataclass(frozen=True)
class WaitFor:
    """Waits until a file is there."""

    path: Path

    def __call__(self) -> None:
        while not self.path.exists():
            time.sleep(0.005)


def exit_at_once() -> None:
    """End the process without a word."""
    os._exit(3)


def stack(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """A collate function that needs no torch."""
    return {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}


@dataclass(frozen=True)
class FatefulStack:
    """`stack`, but under a fate, by the batch's first sample."""

    fate: Fate

    def __call__(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        self.fate.meet(samples[0]["sample"])
        return stack(samples)


def digest(batch: Any) -> str:
    """Hash of everything in a batch."""
    values = batch if isinstance(batch, dict) else {name: getattr(batch, name) for name in batch.__slots__}
    summed = hashlib.sha256()
    for name, value in values.items():
        if hasattr(value, "shape"):
            array = np.ascontiguousarray(np.asarray(value))
            summed.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
        else:
            summed.update(f"{name} {value!r}".encode())
    return summed.hexdigest()


def contents(loader: Any, epochs: int = 2) -> list[str]:
    """Hashes of all batches of some epochs, of which all are kept to the end."""
    batches = []
    for _ in range(epochs):
        for batch in loader:
            batches.append((batch, digest(batch)))
    assert [digest(batch) for batch, _ in batches] == [hashed for _, hashed in batches]
    return [hashed for _, hashed in batches]


def wait_until(true: Callable[[], object], seconds: float = 20) -> None:
    """Wait until something is true, no longer than so many seconds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it didn't come true in time"
        time.sleep(0.005)


def ready(loader: Any) -> int:
    """Batches that a loader has ready."""
    return len(loader._pipeline._ready)
