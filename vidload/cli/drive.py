"""Driving a loader with a made-up training step, and measuring how long the step waits for its batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["EpochMeter", "drive"]


@dataclass
class EpochMeter:
    """What one epoch took, also while it is going on.

    Attributes:
        waits: Seconds that each batch was waited for.
        clips: Clips in all batches.
        frames: Frames in all clips.
        seconds: From asking for the first batch to the end of the last step.
    """

    waits: list[float] = field(default_factory=list)
    clips: int = 0
    frames: int = 0
    seconds: float = 0.0

    @property
    def first_wait(self) -> float:
        """Seconds that the first batch was waited for."""
        return self.waits[0]

    @property
    def mean_wait(self) -> float | None:
        """Mean seconds that the other batches were waited for; None without others."""
        return sum(self.waits[1:]) / len(self.waits[1:]) if len(self.waits) > 1 else None

    def summary(self) -> dict[str, float | int | None]:
        """The epoch in numbers, seconds and counts by name."""
        return {
            "batches": len(self.waits),
            "clips": self.clips,
            "frames": self.frames,
            "seconds": self.seconds,
            "first_wait_s": self.first_wait,
            "mean_wait_s": self.mean_wait,
            "clips_per_s": self.clips / self.seconds if self.seconds else None,
            "frames_per_s": self.frames / self.seconds if self.seconds else None,
        }


def drive(
    loader: Iterable[Any],
    meters: list[EpochMeter],
    *,
    epochs: int,
    steps: int | None = None,
    step_seconds: float = 0.0,
    on_step: Callable[[], None] = lambda: None,
    on_epoch: Callable[[EpochMeter], None] = lambda meter: None,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Take batches as a training loop does, with a pause for a step.

    Args:
        loader: Gives the batches of the next epoch each time it is iterated over.
        meters: One is added per epoch that gave a batch, and kept up to date; so an interrupted run can be told of.
        epochs: How many to run.
        steps: Batches of each epoch to run, None for all.
        step_seconds: Length of a step.
        on_step: Called after each step.
        on_epoch: Called after each epoch that gave a batch.
        clock: Seconds that never go back.
        sleep: Pauses for so many seconds.
    """
    for _ in range(epochs):
        meter = EpochMeter()
        began = asked = clock()
        for batch in loader:
            meter.waits.append(clock() - asked)
            clips, frames = batch.frames.shape
            meter.clips += clips
            meter.frames += clips * frames
            if len(meter.waits) == 1:
                meters.append(meter)
            if step_seconds:
                sleep(step_seconds)
            meter.seconds = clock() - began
            on_step()
            if len(meter.waits) == steps:
                break
            asked = clock()
        if meter.waits:
            on_epoch(meter)
