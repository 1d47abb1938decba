"""What becomes of a video that is too short for a clip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from vidload.errors import ArgumentError, VideoTooShortError
from vidload.index.video import Video

__all__ = ["Short", "check_clip", "check_short", "count_clips"]

Short = Literal["repeat_last", "loop", "drop", "error"]
"""Repeat its last frame, begin anew at its first, take no clip of it, or raise `VideoTooShortError`."""

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]


def check_short(owner: str, short: str) -> None:
    """Refuse a choice that doesn't exist.

    Raises:
        ArgumentError: If `short` isn't one of `Short`; it names `owner`, the sampler.
    """
    if short not in get_args(Short):
        raise ArgumentError(f"{owner} short={short!r}: choose one of {', '.join(map(repr, get_args(Short)))}")


def count_clips(enough: npt.NDArray[np.bool_], clips: Int64 | int, if_short: int, short: Short, needs: str) -> Int64:
    """Clips of each video: `clips` where it is long enough, `if_short` where it isn't but still gives some.

    Raises:
        VideoTooShortError: If one isn't long enough and `short` is ``"error"``. Its `args` are the message and the row.
    """
    if short == "error" and not enough.all():
        row = int(np.argmin(enough))
        error = _too_short(
            f"row {row} of the index and {len(enough) - int(enough.sum()) - 1} more are too short", needs
        )
        error.args = (*error.args, row)
        raise error
    return np.where(enough, clips, 0 if short == "drop" else if_short).astype(np.int64)


def check_clip(
    clips_in: Callable[[Int64, Float64, Float64], Int64],
    video: Video,
    clip: int,
    enough: bool,
    short: Short,
    needs: str,
) -> None:
    """Refuse a clip that the video doesn't have.

    Raises:
        ArgumentError: If `clip` isn't one of the clips that `clips_in` counts.
        VideoTooShortError: If the video isn't long enough and `short` is ``"error"``.
    """
    if short == "error" and not enough:
        raise _too_short(f"{video.path}: {video.num_frames} frames in {video.duration:g} s are too few", needs)
    clips = int(clips_in(np.array([video.num_frames]), np.array([video.duration]), np.array([video.fps]))[0])
    if not 0 <= clip < clips:
        raise ArgumentError(f"clip={clip!r}: {video.path} gives {clips} clips, counted from 0")


def _too_short(what: str, needs: str) -> VideoTooShortError:
    return VideoTooShortError(f'{what}: {needs}; give short="repeat_last", "loop" or "drop", or ask for shorter clips')
