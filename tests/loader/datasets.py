"""Data sets for tests. Worker processes import this module, so it imports no torch and no pytest."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vidload.clips.samplers import UniformClips
from vidload.index.video import Video


@dataclass
class Numbers:
    """The numbers 0 to `count` - 1."""

    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, sample: int) -> Any:
        return sample


@dataclass
class Mapped(Numbers):
    """What a function makes of the numbers."""

    function: Callable[[int], Any]

    def __getitem__(self, sample: int) -> Any:
        return self.function(sample)


class Gated(Numbers):
    """Numbers that are given when the test opens their gates; for threads.

    Attributes:
        asked: The samples that were asked for, in that order.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.asked: list[int] = []
        self._open: set[int] = set()
        self._changed = threading.Condition()

    def __getitem__(self, sample: int) -> int:
        with self._changed:
            self.asked.append(sample)
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: sample in self._open, timeout=30)
        return sample

    def open(self, *samples: int) -> None:
        """Let these samples through, now and later."""
        with self._changed:
            self._open.update(samples or range(self.count))
            self._changed.notify_all()

    def wait_until_asked(self, sample: int, times: int = 1) -> None:
        """Wait until a sample was asked for so many times."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.asked.count(sample) >= times, timeout=30)


@dataclass
class Logged(Numbers):
    """Numbers that leave a line in a file when they are asked for; for processes."""

    path: Path

    def __getitem__(self, sample: int) -> int:
        with self.path.open("a") as file:
            file.write(f"{sample}\n")
        return sample

    def asked(self) -> list[int]:
        return [int(line) for line in self.path.read_text().split()]


@dataclass
class Arrays(Numbers):
    """Arrays of `size` bytes, each full of its number."""

    size: int

    def __getitem__(self, sample: int) -> npt.NDArray[np.uint8]:
        return np.full(self.size, sample, np.uint8)


@dataclass
class Failing(Numbers):
    """Numbers, but the one `at` can't be had."""

    at: int

    def __getitem__(self, sample: int) -> int:
        if sample == self.at:
            raise KeyError("no such thing")
        return sample


@dataclass
class Signalled(Numbers):
    """Numbers, but where number `at` is asked for, the process gets a signal."""

    at: int
    signal: int

    def __getitem__(self, sample: int) -> int:
        if sample == self.at:
            os.kill(os.getpid(), self.signal)
        return sample


class LoadsNowhere(Numbers):
    """A data set that can be sent, but not loaded."""

    def __reduce__(self) -> Any:
        return _import_missing, ()


def _import_missing() -> None:
    import a_module_that_workers_miss  # type: ignore[import-not-found]  # noqa: F401


@dataclass(frozen=True)
class ModuleReport(UniformClips):
    """A sampler that leaves the names of the modules imported where it is used in a file."""

    path: str = ""

    def frames(self, video: Video, clip: int, uniform: Callable[[], float]) -> npt.NDArray[np.int64]:
        Path(self.path).write_text("\n".join(sys.modules))
        return super().frames(video, clip, uniform)
