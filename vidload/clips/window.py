"""The stretch of a video that one clip covers: so many frames at a stride, or so many moments at a rate.

Both kinds answer the same questions, in their own unit: `StrideWindow` counts frames, `RateWindow` seconds on
presentation times. Samplers pick the starts.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from vidload.errors import ArgumentError
from vidload.index.video import Video

__all__ = ["RateWindow", "StrideWindow", "Window", "check_count", "check_seconds", "make_window", "shown_at"]

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

MAX_COUNT = 2**31 - 1

TOLERANCE = 1e-6
"""Seconds by which durations and starts may be off from rounding; far below any frame's duration."""


class Window(Protocol):
    """What samplers ask of a window; starts and slack are in frames or seconds after the first frame."""

    def slack(self, num_frames: Int64, duration: Float64) -> Int64 | Float64:
        """How far a start may move in each video; not above 0 where the video is too short."""
        ...

    def slack_of(self, video: Video) -> float:
        """The same for one video."""
        ...

    def random_start(self, video: Video, uniform: float) -> float:
        """A start somewhere in the slack, `uniform` being in [0, 1)."""
        ...

    def even_start(self, video: Video, clip: int, clips: int) -> float:
        """The start of one of `clips` that lie evenly over the video; a single one lies in the middle."""
        ...

    def count(self, slack: Int64 | Float64, hop: float) -> Int64:
        """How many starts lie in each slack, `hop` apart."""
        ...

    def frames(self, video: Video, start: float) -> Int64:
        """Frame numbers of the clip that begins at `start`; the last frame where the video has ended before."""
        ...

    def looped_frames(self, video: Video) -> Int64:
        """Frame numbers of the clip that begins at the first frame and begins anew where the video ends."""
        ...


@dataclass(frozen=True, slots=True)
class StrideWindow:
    """`num_frames` frames, each `stride` after the one before. Starts are frame numbers.

    A clip spans (num_frames - 1) * stride + 1 frames; a video of just as many has one start.
    """

    num_frames: int
    stride: int

    @property
    def span(self) -> int:
        """Frames from the first to the last, both included."""
        return (self.num_frames - 1) * self.stride + 1

    def __str__(self) -> str:
        return f"{self.num_frames} frames at stride {self.stride} span {self.span} frames"

    def slack(self, num_frames: Int64, duration: Float64) -> Int64:
        """Number of possible starts in each video."""
        return np.asarray(num_frames, dtype=np.int64) - (self.span - 1)

    def slack_of(self, video: Video) -> int:
        """Number of possible starts."""
        return video.num_frames - (self.span - 1)

    def random_start(self, video: Video, uniform: float) -> int:
        """Any of the possible starts, all as likely."""
        return int(uniform * max(self.slack_of(video), 0))

    def even_start(self, video: Video, clip: int, clips: int) -> int:
        """The first possible start to the last one, rounded to frames."""
        last = max(self.slack_of(video) - 1, 0)
        return last // 2 if clips == 1 else (2 * clip * last + clips - 1) // (2 * (clips - 1))

    def count(self, slack: Int64 | Float64, hop: float) -> Int64:
        """Starts 0, hop, 2 * hop, ... below the slack."""
        counts: Int64 = (np.asarray(slack, dtype=np.int64) + (int(hop) - 1)) // int(hop)
        return counts

    def frames(self, video: Video, start: float) -> Int64:
        """Every `stride`-th frame from `start`."""
        return np.minimum(int(start) + self._offsets(), video.num_frames - 1)

    def looped_frames(self, video: Video) -> Int64:
        """Every `stride`-th frame of the video repeated without end."""
        return self._offsets() % video.num_frames

    def _offsets(self) -> Int64:
        return np.arange(self.num_frames, dtype=np.int64) * self.stride


@dataclass(frozen=True, slots=True)
class RateWindow:
    """The frames shown at `num_frames` moments, 1 / `fps` seconds apart. Starts are seconds after the first frame.

    The frame shown at a moment is the last one with pts ≤ it. A clip spans (num_frames - 1) / fps seconds, and all its
    moments lie before the last frame's end.
    """

    num_frames: int
    fps: float

    @property
    def span(self) -> float:
        """Seconds from the first moment to the last."""
        return (self.num_frames - 1) / self.fps

    def __str__(self) -> str:
        return f"{self.num_frames} frames at {self.fps:g} frames per second span more than {self.span:g} s"

    def slack(self, num_frames: Int64, duration: Float64) -> Float64:
        """Seconds by which the first moment may move in each video."""
        return np.asarray(duration, dtype=np.float64) - (self.span + TOLERANCE)

    def slack_of(self, video: Video) -> float:
        """Seconds by which the first moment may move."""
        return video.duration - (self.span + TOLERANCE)

    def random_start(self, video: Video, uniform: float) -> float:
        """Any moment of the slack, all as likely."""
        return uniform * max(self.slack_of(video) - video.forgiveness, 0.0)

    def even_start(self, video: Video, clip: int, clips: int) -> float:
        """The first frame's pts to the latest start whose last moment is the last frame's pts."""
        first, last = video.pts(np.array([0, video.num_frames - 1]))
        room = max(float(last - first) - self.span, 0.0)
        return room / 2 if clips == 1 else room * clip / (clips - 1)

    def count(self, slack: Int64 | Float64, hop: float) -> Int64:
        """Starts 0, hop, 2 * hop, ... below the slack."""
        return np.ceil(slack / hop).astype(np.int64)

    def frames(self, video: Video, start: float) -> Int64:
        """The frames shown from `start` on."""
        return shown_at(video, start + self._offsets())

    def looped_frames(self, video: Video) -> Int64:
        """The frames shown when the video is played again and again."""
        if video.duration <= TOLERANCE:
            return np.zeros(self.num_frames, dtype=np.int64)
        seconds = self._offsets() % video.duration
        return shown_at(video, np.where(video.duration - seconds < TOLERANCE, 0.0, seconds))

    def _offsets(self) -> Float64:
        return np.arange(self.num_frames) / self.fps


def shown_at(video: Video, seconds: Float64) -> Int64:
    """Frames shown at times after the first frame's pts, int64[len(seconds)]; the last frame from its pts on."""
    return video.frames_at(seconds + video.pts(np.array([0]))[0])


def make_window(owner: str, num_frames: int, stride: int | None, fps: float | None) -> Window:
    """The window of a sampler's arguments, just one of `stride` and `fps` being given.

    Raises:
        ArgumentError: If an argument is wrong; named together with `owner`, the sampler.
    """
    count = check_count(f"{owner} num_frames", num_frames)
    if fps is None and stride is not None:
        return StrideWindow(count, check_count(f"{owner} stride", stride))
    if fps is None or stride is not None:
        raise ArgumentError(
            f"{owner} stride={stride!r}, fps={fps!r}: give one of them, the frames from one to the next or the "
            "frames per second"
        )
    return RateWindow(count, check_seconds(f"{owner} fps", fps, "frames per second"))


def check_count(name: str, value: Any) -> int:
    """Return `value` as a plain int of at least 1.

    Raises:
        ArgumentError: If it isn't one, or is above 2**31 - 1.
    """
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if isinstance(value, bool) or not 1 <= count <= MAX_COUNT:
        raise ArgumentError(f"{name}={value!r}: give an integer from 1 to {MAX_COUNT}")
    return count


def check_seconds(name: str, value: Any, unit: str = "seconds") -> float:
    """Return `value` as a plain float from a millionth to a million.

    Raises:
        ArgumentError: If it isn't one.
    """
    try:
        number = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 1e-6 <= number <= 1e6:
        raise ArgumentError(f"{name}={value!r}: give {unit} from 0.000001 to 1000000")
    return number
