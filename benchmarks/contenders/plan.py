"""Which frames of which films make up which batch: the same for all contenders."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vidload.clips.samplers import ClipSampler
from vidload.index.video import Video

__all__ = ["SIZE", "Clip", "Plan", "PlannedClips"]

SIZE = 224


@dataclass(frozen=True)
class Clip:
    """A clip: the film's row in the index, and frame numbers."""

    video: int
    frames: list[int]


@dataclass(frozen=True)
class Plan:
    """What is loaded.

    Attributes:
        films: Paths, in the index's order.
        index: The index of these.
        clips: In the order they are loaded.
        batch_size: Clips of a batch.
        period: The number in a frame's pixels is the frame's modulo this: long films are short ones repeated.
    """

    films: list[str]
    index: str
    clips: list[Clip]
    batch_size: int
    period: int

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Plan:
        found = json.loads(path.read_text())
        return cls(**{**found, "clips": [Clip(**clip) for clip in found["clips"]]})

    @property
    def batches(self) -> list[list[Clip]]:
        return [self.clips[at : at + self.batch_size] for at in range(0, len(self.clips), self.batch_size)]


@dataclass(frozen=True)
class PlannedClips(ClipSampler):
    """A vidload sampler that gives a plan's clips; `order` is the samples in the plan's order."""

    plan: Plan

    @property
    def num_frames(self) -> int:  # type: ignore[override]
        return len(self.plan.clips[0].frames)

    def _of_video(self, video: int) -> list[int]:
        return [number for number, clip in enumerate(self.plan.clips) if clip.video == video]

    def clips_in(
        self, num_frames: npt.NDArray[np.int64], duration: npt.NDArray[np.float64], fps: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.int64]:
        return np.array([len(self._of_video(video)) for video in range(len(num_frames))], np.int64)

    def frames(self, video: Video, clip: int, uniform: Callable[[], float]) -> npt.NDArray[np.int64]:
        return np.array(self.plan.clips[self._of_video(video.id)[clip]].frames, np.int64)

    @property
    def order(self) -> list[int]:
        samples = [number for video in range(len(self.plan.films)) for number in self._of_video(video)]
        place = {number: sample for sample, number in enumerate(samples)}
        return [place[number] for number in range(len(self.plan.clips))]
