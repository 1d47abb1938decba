"""Samplers: how many clips a video gives, and which frames make up each.

A sampler holds no state and never looks at a picture. What is random in it comes from the numbers it is handed, so the
same clip is the same frames on every worker and in every run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from vidload.clips.short import Short, check_clip, check_short, count_clips
from vidload.clips.window import Window, check_count, check_seconds, make_window, shown_at
from vidload.errors import ArgumentError
from vidload.index.video import Video

__all__ = ["ClipSampler", "DenseClips", "RandomClips", "Short", "SparseFrames", "UniformClips"]

Uniform = Callable[[], float]
"""Gives the clip's next random number, uniform in [0, 1)."""

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]


class ClipSampler(Protocol):
    """Chooses the frames of clips. Any object with these three members is a sampler."""

    @property
    def num_frames(self) -> int:
        """Frames of every clip."""
        ...

    def clips_in(self, num_frames: Int64, duration: Float64, fps: Float64) -> Int64:
        """Count the clips of many videos at once.

        Args:
            num_frames: int64[N], frames of each video.
            duration: float64[N], seconds from the first frame's start to the last one's end.
            fps: float64[N], average frames per second.

        Returns:
            int64[N], clips of each video; 0 for one that gives none.

        Raises:
            VideoTooShortError: If a video is too short and the sampler was told ``short="error"``. The second of the
                error's `args` is the video's row.
        """
        ...

    def frames(self, video: Video, clip: int, uniform: Uniform) -> Int64:
        """Frame numbers of one clip.

        Args:
            video: The video, as the index knows it.
            clip: Which of its clips, from 0 to below what `clips_in` says.
            uniform: The clip's random numbers.

        Returns:
            int64[num_frames], each from 0 to ``video.num_frames - 1``; may repeat.

        Raises:
            ArgumentError: If the video has no such clip.
            VideoTooShortError: If it is too short and the sampler was told ``short="error"``.
        """
        ...


@dataclass(frozen=True)
class _WindowClips(ABC):
    """What the samplers share whose clips are windows of the video."""

    num_frames: int = 16
    _: KW_ONLY
    stride: int | None = None
    fps: float | None = None
    short: Short = "repeat_last"

    def __post_init__(self) -> None:
        if self.stride is None and self.fps is None:
            object.__setattr__(self, "stride", 4)
        check_short(type(self).__name__, self.short)
        self._window()

    def _window(self) -> Window:
        return make_window(type(self).__name__, self.num_frames, self.stride, self.fps)

    @abstractmethod
    def _clips(self, window: Window, slack: Int64 | Float64) -> Int64 | int:
        """How many clips a video has that is long enough."""

    @abstractmethod
    def _clips_if_short(self) -> int:
        """How many clips a video has that is too short, where it isn't dropped."""

    @abstractmethod
    def _start(self, window: Window, video: Video, clip: int, uniform: Uniform) -> float:
        """Where the clip begins."""

    def clips_in(self, num_frames: Int64, duration: Float64, fps: Float64) -> Int64:
        """Count the clips of many videos at once; see `ClipSampler.clips_in`."""
        window = self._window()
        slack = window.slack(num_frames, duration)
        return count_clips(slack > 0, self._clips(window, slack), self._clips_if_short(), self.short, str(window))

    def frames(self, video: Video, clip: int, uniform: Uniform) -> Int64:
        """Frame numbers of one clip; see `ClipSampler.frames`."""
        window = self._window()
        enough = window.slack_of(video) > 0
        check_clip(self.clips_in, video, clip, enough, self.short, str(window))
        start = self._start(window, video, clip, uniform)
        if self.short == "loop" and not enough:
            return window.looped_frames(video)
        return window.frames(video, start)


@dataclass(frozen=True)
class RandomClips(_WindowClips):
    """Clips that begin anywhere in the video, anew in each epoch.

    By `stride`, every possible first frame is as likely; by `fps`, every possible moment.

    Args:
        num_frames: Frames of a clip.
        stride: Frames from one to the next; 4 where neither this nor `fps` is given.
        fps: Frames per second on presentation times, in place of `stride`: frame k of a clip that begins at t is the
            one shown at t + k / fps, the last with pts ≤ that. Exact for variable frame rates too.
        clips_per_video: Clips of a video in each epoch, independent of one another.
        short: For a video that is too short for a clip: ``"repeat_last"`` repeats its last frame, ``"loop"`` begins
            anew at its first frame, ``"drop"`` takes no clip of it, ``"error"`` raises `VideoTooShortError`.

    Raises:
        ArgumentError: If an argument is out of its range, or both `stride` and `fps` are given.
    """

    _: KW_ONLY
    clips_per_video: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("RandomClips clips_per_video", self.clips_per_video)

    def _clips(self, window: Window, slack: Int64 | Float64) -> int:
        return self.clips_per_video

    def _clips_if_short(self) -> int:
        return self.clips_per_video

    def _start(self, window: Window, video: Video, clip: int, uniform: Uniform) -> float:
        return window.random_start(video, uniform())


@dataclass(frozen=True)
class UniformClips(_WindowClips):
    """Clips that lie evenly over the video, the same in each epoch: the first begins with it, the last ends with it.

    A single clip lies in the middle.

    Args:
        num_frames: Frames of a clip.
        stride: Frames from one to the next; 4 where neither this nor `fps` is given.
        fps: Frames per second on presentation times, in place of `stride`; see `RandomClips`.
        clips_per_video: Clips of each video.
        short: For a video that is too short for a clip; see `RandomClips`.

    Raises:
        ArgumentError: If an argument is out of its range, or both `stride` and `fps` are given.
    """

    _: KW_ONLY
    clips_per_video: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("UniformClips clips_per_video", self.clips_per_video)

    def _clips(self, window: Window, slack: Int64 | Float64) -> int:
        return self.clips_per_video

    def _clips_if_short(self) -> int:
        return self.clips_per_video

    def _start(self, window: Window, video: Video, clip: int, uniform: Uniform) -> float:
        return window.even_start(video, clip, self.clips_per_video)


@dataclass(frozen=True)
class DenseClips(_WindowClips):
    """All clips of the video, `hop` apart, the same in each epoch. What is left at the end is no clip of its own.

    Args:
        num_frames: Frames of a clip.
        stride: Frames from one to the next; 4 where neither this nor `fps` is given.
        fps: Frames per second on presentation times, in place of `stride`; see `RandomClips`.
        hop: From the beginning of one clip to that of the next: in frames by `stride`, in seconds by `fps`. By default,
            clips follow each other without overlap: (num_frames - 1) * stride + 1 frames, or num_frames / fps seconds.
        short: For a video that is too short for a clip; see `RandomClips`. Unless dropped, it gives one.

    Raises:
        ArgumentError: If an argument is out of its range, or both `stride` and `fps` are given.
    """

    _: KW_ONLY
    hop: int | float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hop is not None and self.fps is None:
            check_count("DenseClips hop", self.hop)
        elif self.hop is not None:
            check_seconds("DenseClips hop", self.hop)

    @property
    def _hop(self) -> float:
        if self.hop is not None:
            return self.hop
        if self.fps is not None:
            return self.num_frames / self.fps
        return (self.num_frames - 1) * (self.stride or 1) + 1

    def _clips(self, window: Window, slack: Int64 | Float64) -> Int64:
        return window.count(slack, self._hop)

    def _clips_if_short(self) -> int:
        return 1

    def _start(self, window: Window, video: Video, clip: int, uniform: Uniform) -> float:
        return clip * self._hop


@dataclass(frozen=True)
class SparseFrames:
    """Frames spread over the whole video: it is cut into `num_frames` equal parts, and each gives one frame.

    Args:
        num_frames: Frames of a clip. A video with fewer frames is too short.
        by: What the parts are equal in: ``"frames"``, or ``"time"`` on presentation times, which differ where the frame
            rate varies. By time, a part of a video with a variable rate may lie within one frame and then repeats it.
        jitter: False takes the middle of each part, the same in each epoch; True a random frame (or moment) of each, as
            temporal segment networks do (Wang et al. 2016, https://arxiv.org/abs/1608.00859).
        clips_per_video: Clips of a video in each epoch, independent of one another; more than one only with `jitter`.
        short: For a video that is too short; see `RandomClips`.

    Raises:
        ArgumentError: If an argument is out of its range.
    """

    num_frames: int
    _: KW_ONLY
    by: Literal["frames", "time"] = "frames"
    jitter: bool = False
    clips_per_video: int = 1
    short: Short = "repeat_last"

    def __post_init__(self) -> None:
        check_count("SparseFrames num_frames", self.num_frames)
        check_count("SparseFrames clips_per_video", self.clips_per_video)
        check_short("SparseFrames", self.short)
        if self.by not in ("frames", "time"):
            raise ArgumentError(f"SparseFrames by={self.by!r}: choose 'frames' or 'time'")
        if not isinstance(self.jitter, bool):
            raise ArgumentError(f"SparseFrames jitter={self.jitter!r}: choose True or False")
        if self.clips_per_video > 1 and not self.jitter:
            raise ArgumentError(
                f"SparseFrames clips_per_video={self.clips_per_video}: without jitter all clips of a video would be "
                "the same; give jitter=True or clips_per_video=1"
            )

    def clips_in(self, num_frames: Int64, duration: Float64, fps: Float64) -> Int64:
        """Count the clips of many videos at once; see `ClipSampler.clips_in`."""
        enough = np.asarray(num_frames) >= self.num_frames
        return count_clips(enough, self.clips_per_video, self.clips_per_video, self.short, self._needs)

    def frames(self, video: Video, clip: int, uniform: Uniform) -> Int64:
        """Frame numbers of one clip, in the order they are shown; see `ClipSampler.frames`."""
        enough = video.num_frames >= self.num_frames
        check_clip(self.clips_in, video, clip, enough, self.short, self._needs)
        parts = np.arange(self.num_frames, dtype=np.int64)
        if not enough:
            return parts % video.num_frames if self.short == "loop" else np.minimum(parts, video.num_frames - 1)
        within = np.array([uniform() for _ in parts]) if self.jitter else np.full(self.num_frames, 0.5)
        if self.by == "time":
            return shown_at(video, (parts + within) * (video.duration / self.num_frames))
        chosen: Int64
        if self.jitter:
            first = parts * video.num_frames // self.num_frames
            after = (parts + 1) * video.num_frames // self.num_frames
            chosen = first + (within * (after - first)).astype(np.int64)
        else:
            chosen = (2 * parts + 1) * video.num_frames // (2 * self.num_frames)
        return chosen

    @property
    def _needs(self) -> str:
        return f"{self.num_frames} sparse frames need as many in the video"
