"""Videos too short for a clip, and arguments that can't work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.clips.records import constant, record
from vidload.clips.samplers import ClipSampler, DenseClips, RandomClips, SparseFrames, UniformClips
from vidload.errors import ArgumentError, VideoTooShortError

WINDOWS = [RandomClips, UniformClips, DenseClips]
THREE = (np.array([3]), np.array([3 / 25]), np.array([25.0]))


def zero() -> float:
    return 0.0


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("pace", [{"stride": 2}, {"fps": 12.5}])
@pytest.mark.parametrize(("short", "frames"), [("repeat_last", [0, 2, 2, 2, 2]), ("loop", [0, 2, 1, 0, 2])])
def test_a_short_video_is_filled_up_as_asked(kind: Any, pace: dict[str, Any], short: str, frames: list[int]) -> None:
    sampler = kind(5, short=short, **pace)
    assert sampler.clips_in(*THREE).tolist() == [1]
    assert sampler.frames(constant(3, first=50), 0, zero).tolist() == frames


@pytest.mark.parametrize(("short", "frames"), [("repeat_last", [0, 1, 2, 2, 2]), ("loop", [0, 1, 2, 0, 1])])
@pytest.mark.parametrize("by", ["frames", "time"])
def test_sparse_frames_of_a_short_video_are_filled_up_as_asked(by: Any, short: Any, frames: list[int]) -> None:
    assert SparseFrames(5, by=by, short=short).frames(constant(3), 0, zero).tolist() == frames


def test_looping_by_rate_keeps_the_time_of_a_variable_rate() -> None:
    video = record([0, 100, 400], last=500)  # 0.9 s
    frames = RandomClips(8, fps=5, short="loop").frames(video, 0, zero)
    assert frames.tolist() == [0, 1, 2, 2, 2, 1, 1, 2]  # at 0, .2, .4, .6, .8, 1.0, 1.2 and 1.4 s, less 0.9 from 1.0 on


@pytest.mark.parametrize("sampler", [*(kind(5, short="drop") for kind in WINDOWS), SparseFrames(5, short="drop")])
def test_a_dropped_video_gives_no_clips(sampler: ClipSampler) -> None:
    assert sampler.clips_in(*THREE).tolist() == [0]
    with pytest.raises(ArgumentError, match="gives 0 clips"):
        sampler.frames(constant(3), 0, zero)


@pytest.mark.parametrize(
    ("sampler", "needs"),
    [
        (RandomClips(5, short="error"), "5 frames at stride 4 span 17 frames"),
        (UniformClips(5, fps=10, short="error"), "5 frames at 10 frames per second span more than 0.4 s"),
        (SparseFrames(5, short="error"), "5 sparse frames"),
    ],
)
def test_errors_name_the_video_and_what_it_would_need(sampler: ClipSampler, needs: str) -> None:
    with pytest.raises(VideoTooShortError, match=rf"record\.mp4: 3 frames.*{needs}.*repeat_last"):
        sampler.frames(constant(3), 0, zero)
    lengths = np.array([100, 100, 3, 2])
    with pytest.raises(VideoTooShortError, match=f"row 2 of the index and 1 more.*{needs}") as caught:
        sampler.clips_in(lengths, lengths / 25, np.full(4, 25.0))
    assert caught.value.args[1] == 2


def test_several_clips_of_a_short_video_are_still_several() -> None:
    assert RandomClips(5, clips_per_video=3).clips_in(*THREE).tolist() == [3]
    assert DenseClips(5, hop=1).clips_in(*THREE).tolist() == [1]


@pytest.mark.parametrize("pace", [{"stride": 1}, {"fps": 25}])
def test_a_single_frame_makes_a_clip(pace: dict[str, Any]) -> None:
    for short in ("repeat_last", "loop"):
        assert RandomClips(3, short=short, **pace).frames(constant(1), 0, zero).tolist() == [0, 0, 0]
        assert RandomClips(3, short=short, **pace).frames(record([5], last=1), 0, zero).tolist() == [0, 0, 0]


@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"num_frames": 0}, "num_frames=0: give an integer from 1"),
        ({"num_frames": 1.5}, "num_frames=1.5"),
        ({"num_frames": True}, "num_frames=True"),
        ({"num_frames": 2**31}, "num_frames=2147483648"),
        ({"stride": 0}, "stride=0"),
        ({"stride": "2"}, "stride='2'"),
        ({"fps": 0}, "fps=0: give frames per second from"),
        ({"fps": float("nan")}, "fps=nan"),
        ({"fps": float("inf")}, "fps=inf"),
        ({"fps": "ten"}, "fps='ten'"),
        ({"stride": 4, "fps": 8}, "stride=4, fps=8: give one"),
        ({"short": "pad"}, "short='pad': choose one of 'repeat_last', 'loop', 'drop', 'error'"),
    ],
)
def test_arguments_are_refused_by_name(kind: Any, arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{kind.__name__} {named}"):
        kind(**arguments)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: RandomClips(clips_per_video=0), "RandomClips clips_per_video=0"),
        (lambda: UniformClips(clips_per_video=-1), "UniformClips clips_per_video=-1"),
        (lambda: DenseClips(hop=0), "DenseClips hop=0"),
        (lambda: DenseClips(hop=2.5), "DenseClips hop=2.5"),
        (lambda: DenseClips(fps=10, hop=-1.0), "DenseClips hop=-1.0"),
        (lambda: SparseFrames(0), "SparseFrames num_frames=0"),
        (lambda: SparseFrames(4, by="seconds"), "SparseFrames by='seconds'"),  # type: ignore[arg-type]
        (lambda: SparseFrames(4, jitter="yes"), "SparseFrames jitter='yes'"),  # type: ignore[arg-type]
        (lambda: SparseFrames(4, clips_per_video=2), "SparseFrames clips_per_video=2: without jitter"),
    ],
)
def test_each_samplers_own_arguments_are_refused_by_name(make: Any, named: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{named}"):
        make()


def test_the_default_is_sixteen_frames_at_stride_four() -> None:
    assert RandomClips() == RandomClips(num_frames=16, stride=4, clips_per_video=1, short="repeat_last")


def test_a_million_videos_are_counted_without_a_loop() -> None:
    lengths = np.full(1_000_000, 1000)
    for sampler in (
        RandomClips(clips_per_video=2),
        DenseClips(fps=8),
        SparseFrames(8),
        UniformClips(clips_per_video=3),
    ):
        clips = sampler.clips_in(lengths, lengths / 25, np.full(len(lengths), 25.0))
        assert clips.shape == lengths.shape
        assert len(set(clips.tolist())) == 1
