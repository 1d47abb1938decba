"""What holds for every sampler, on any video."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clips.records import constant, record, records
from vidload.clips.random import clip_uniform
from vidload.clips.samplers import ClipSampler, DenseClips, RandomClips, SparseFrames, UniformClips
from vidload.errors import ArgumentError, VideoTooShortError
from vidload.index.video import Video

SHORT = st.sampled_from(["repeat_last", "loop", "drop", "error"])
COUNTS = st.integers(1, 20)
RATES = st.floats(0.2, 200)
PACE = st.one_of(
    st.builds(dict, stride=st.integers(1, 10)),
    st.builds(dict, fps=RATES),
)


def samplers() -> st.SearchStrategy[ClipSampler]:
    windows = st.sampled_from([RandomClips, UniformClips])
    clips = st.integers(1, 5)
    dense_pace = st.one_of(
        st.builds(dict, stride=st.integers(1, 10), hop=st.none() | st.integers(1, 50)),
        st.builds(dict, fps=RATES, hop=st.none() | st.floats(0.01, 10)),
    )
    return st.one_of(
        st.builds(
            lambda kind, n, pace, c, s: kind(n, clips_per_video=c, short=s, **pace), windows, COUNTS, PACE, clips, SHORT
        ),
        st.builds(lambda n, pace, s: DenseClips(n, short=s, **pace), COUNTS, dense_pace, SHORT),
        st.builds(
            lambda n, by, c, s: SparseFrames(n, by=by, jitter=True, clips_per_video=c, short=s),
            COUNTS,
            st.sampled_from(["frames", "time"]),
            clips,
            SHORT,
        ),
        st.builds(lambda n, by, s: SparseFrames(n, by=by, short=s), COUNTS, st.sampled_from(["frames", "time"]), SHORT),
    )


def count(sampler: ClipSampler, *videos: Video) -> list[int]:
    clips = sampler.clips_in(
        np.array([video.num_frames for video in videos]),
        np.array([video.duration for video in videos]),
        np.array([video.fps for video in videos]),
    )
    assert clips.dtype == np.int64
    return [int(number) for number in clips]


def always(number: float) -> Callable[[], float]:
    return lambda: number


@given(samplers(), records(), st.integers(0, 5))
def test_every_clip_counted_has_frames_within_the_video(sampler: ClipSampler, video: Video, epoch: int) -> None:
    try:
        clips = count(sampler, video)[0]
    except VideoTooShortError:
        with pytest.raises(VideoTooShortError, match=video.path):
            sampler.frames(video, 0, always(0.0))
        return
    for clip in {*range(min(clips, 3)), *range(max(clips - 3, 0), clips)}:
        for uniform in (clip_uniform(0, epoch, clip), always(0.0), always(1 - 2**-53)):
            frames = sampler.frames(video, clip, uniform)
            assert frames.shape == (sampler.num_frames,)
            assert frames.dtype == np.int64
            assert frames.min() >= 0
            assert frames.max() < video.num_frames
    for clip in (clips, -1):
        with pytest.raises(ArgumentError, match=f"clip={clip}"):
            sampler.frames(video, clip, always(0.0))


@given(samplers(), st.lists(records(), min_size=1, max_size=8))
def test_counting_many_videos_is_counting_each(sampler: ClipSampler, videos: list[Video]) -> None:
    each = []
    for row, video in enumerate(videos):
        try:
            each += count(sampler, video)
        except VideoTooShortError:
            with pytest.raises(VideoTooShortError, match=f"row {row} ") as caught:
                count(sampler, *videos)
            assert caught.value.args[1] == row
            return
    assert count(sampler, *videos) == each


@given(samplers(), records())
def test_the_same_clip_is_the_same_frames(sampler: ClipSampler, video: Video) -> None:
    clips = 0 if sampler.short == "error" else count(sampler, video)[0]  # type: ignore[attr-defined]
    copy = pickle.loads(pickle.dumps(sampler))
    assert copy == sampler
    for clip in range(min(clips, 3)):
        first = sampler.frames(video, clip, clip_uniform(1, 2, clip))
        assert np.array_equal(first, copy.frames(video, clip, clip_uniform(1, 2, clip)))


@given(samplers(), records())
def test_frames_of_a_video_long_enough_follow_in_time(sampler: ClipSampler, video: Video) -> None:
    if sampler.short == "drop" and count(sampler, video)[0]:  # type: ignore[attr-defined]
        assert (np.diff(sampler.frames(video, 0, clip_uniform(0, 0, 0))) >= 0).all()


@given(st.integers(1, 20), st.integers(1, 10), st.integers(0, 30))
def test_a_video_of_just_the_span_has_one_start(num_frames: int, stride: int, more: int) -> None:
    span = (num_frames - 1) * stride + 1
    for sampler in (
        RandomClips(num_frames, stride=stride, short="drop"),
        DenseClips(num_frames, stride=stride, short="drop"),
    ):
        assert count(sampler, constant(span)) == [1]
        assert sampler.frames(constant(span), 0, always(1 - 2**-53)).tolist() == list(range(0, span, stride))
        if span > 1:
            assert count(sampler, constant(span - 1)) == [0]
    hops = DenseClips(num_frames, stride=stride, hop=1, short="drop")
    assert count(hops, constant(span + more)) == [more + 1]


@given(st.integers(2, 20), st.sampled_from([1, 2, 5]), st.integers(0, 30), st.floats(0, 1, exclude_max=True))
def test_at_a_constant_rate_fps_is_stride(num_frames: int, stride: int, more: int, uniform: float) -> None:
    span = (num_frames - 1) * stride + 1
    by_rate = RandomClips(num_frames, fps=25 / stride, short="drop")
    assert count(by_rate, constant(span + more), constant(span - 1)) == [1, 0]
    frames = by_rate.frames(constant(span + more, first=7), 0, always(uniform))
    assert (np.diff(frames) == stride).all()
    dense = [DenseClips(num_frames, fps=25, short="drop"), DenseClips(num_frames, stride=1, short="drop")]
    video = constant(span + more, first=-3)
    assert count(dense[0], video) == count(dense[1], video)
    for clip in range(count(dense[0], video)[0]):
        assert np.array_equal(*(sampler.frames(video, clip, always(0.0)) for sampler in dense))


def assert_shown_at(video: Video, frames: np.ndarray, seconds: np.ndarray, rounding: float = 1e-9) -> None:
    """Each frame is the last whose pts isn't later than its moment; half a millisecond, half a tick, is no time."""
    pts = np.append(video.pts(), np.inf)
    assert (pts[frames] <= seconds + 0.0005 + rounding).all()
    assert (pts[frames + 1] > seconds - rounding).all()


@given(records(), COUNTS, RATES, st.floats(0, 1, exclude_max=True))
def test_by_rate_a_clip_shows_what_a_player_shows(video: Video, num_frames: int, fps: float, uniform: float) -> None:
    span = (num_frames - 1) / fps
    sampler = RandomClips(num_frames, fps=fps, short="drop")
    if not count(sampler, video)[0]:
        assert video.duration <= span + 2e-6
        return
    moments = video.pts()[0] + uniform * max(video.duration - span - 0.0005, 0) + np.arange(num_frames) / fps
    assert moments[-1] < video.pts()[0] + video.duration
    assert_shown_at(video, sampler.frames(video, 0, always(uniform)), moments, rounding=2e-6)


@pytest.mark.parametrize("fps", [24, 25, 30, 50, 60])
def test_timestamps_rounded_to_milliseconds_repeat_and_skip_no_frame(fps: int) -> None:
    video = record([round(1000 * i / fps) for i in range(200)], last=round(1000 / fps))
    frames = UniformClips(200, fps=fps).frames(video, 0, always(0.0))
    assert frames.tolist() == list(range(200))


@given(records(), COUNTS, RATES, st.none() | st.floats(0.05, 3))
def test_dense_clips_by_rate_begin_a_hop_apart(video: Video, num_frames: int, fps: float, hop: float | None) -> None:
    sampler = DenseClips(num_frames, fps=fps, hop=hop, short="drop")
    step = num_frames / fps if hop is None else hop
    clips = count(sampler, video)[0]
    span = (num_frames - 1) / fps
    assert (clips - 1) * step + span < video.duration or clips == 0
    assert clips * step + span >= video.duration - 2e-6
    for clip in {0, clips - 1} if clips else set():
        moments = video.pts()[0] + clip * step + np.arange(num_frames) / fps
        assert_shown_at(video, sampler.frames(video, clip, always(0.5)), moments)


def test_random_starts_are_equally_likely_and_reach_both_ends() -> None:
    video = constant(61 + 9)
    starts = [RandomClips().frames(video, 0, clip_uniform(0, 0, sample))[0] for sample in range(5000)]
    counts = np.bincount(starts, minlength=10)
    assert len(counts) == 10
    assert ((counts - 500) ** 2 / 500).sum() < 27.9  # chi-squared, 9 degrees of freedom, one in a thousand


def test_random_moments_are_equally_likely_on_a_variable_rate() -> None:
    video = record([0, 100, 900], last=1000)  # frames shown for 100, 800 and 1000 ms
    frames = [RandomClips(1, fps=1).frames(video, 0, clip_uniform(0, 0, sample))[0] for sample in range(3800)]
    counts = np.bincount(frames, minlength=3)
    assert ((counts - [200, 1600, 2000]) ** 2 / [200, 1600, 2000]).sum() < 13.8  # 2 degrees of freedom


def test_uniform_clips_reach_from_the_first_frame_to_the_last() -> None:
    sampler = UniformClips(4, stride=2, clips_per_video=3)
    video = constant(27)  # starts 0 to 20
    assert [sampler.frames(video, clip, always(0.9))[0] for clip in range(3)] == [0, 10, 20]
    assert sampler.frames(video, 2, always(0.0)).tolist() == [20, 22, 24, 26]
    assert UniformClips(4, stride=2).frames(video, 0, always(0.0)).tolist() == [10, 12, 14, 16]
    assert count(sampler, video, constant(2)) == [3, 3]


def test_uniform_clips_by_rate_reach_from_the_first_frame_to_the_last() -> None:
    video = record([0, 40, 80, 500, 1000, 1400, 2000], last=500)
    sampler = UniformClips(3, fps=2, clips_per_video=3)
    assert sampler.frames(video, 0, always(0.9)).tolist() == [0, 3, 4]  # at 0.0, 0.5 and 1.0 s
    assert sampler.frames(video, 1, always(0.9)).tolist() == [3, 4, 5]  # at 0.5, 1.0 and 1.5 s
    assert sampler.frames(video, 2, always(0.9)).tolist() == [4, 5, 6]  # at 1.0, 1.5 and 2.0 s
    assert UniformClips(3, fps=2).frames(video, 0, always(0.9)).tolist() == [3, 4, 5]


@given(st.integers(1, 8), st.integers(1, 100))
def test_uniform_clips_are_evenly_spaced(clips: int, room: int) -> None:
    video = constant(room)
    sampler = UniformClips(1, stride=1, clips_per_video=clips)
    starts = [int(sampler.frames(video, clip, always(0.0))[0]) for clip in range(clips)]
    if clips > 1:
        assert starts == [int(np.floor(i * (room - 1) / (clips - 1) + 0.5)) for i in range(clips)]
    else:
        assert starts == [(room - 1) // 2]


def test_dense_clips_cover_the_video_without_overlap() -> None:
    sampler = DenseClips(4, stride=2)  # a clip spans 7 frames
    video = constant(22)
    assert count(sampler, video) == [3]
    assert [sampler.frames(video, clip, always(0.0)).tolist() for clip in range(3)] == [
        [0, 2, 4, 6],
        [7, 9, 11, 13],
        [14, 16, 18, 20],
    ]
    assert count(DenseClips(4, stride=2, hop=5), video) == [4]


def test_sparse_frames_are_the_middles_of_equal_parts() -> None:
    assert SparseFrames(4).frames(constant(40), 0, always(0.0)).tolist() == [5, 15, 25, 35]
    video = record([0, 100, 200, 300, 400, 2000], last=2000)
    assert SparseFrames(4).frames(video, 0, always(0.0)).tolist() == [0, 2, 3, 5]
    assert SparseFrames(4, by="time").frames(video, 0, always(0.0)).tolist() == [4, 4, 5, 5]  # at 0.5, 1.5, 2.5, 3.5 s


@given(st.integers(1, 30), st.integers(0, 100), st.integers(0, 3))
def test_jittered_sparse_frames_take_one_frame_of_each_part(num_frames: int, more: int, epoch: int) -> None:
    video = constant(num_frames + more)
    frames = SparseFrames(num_frames, jitter=True).frames(video, 0, clip_uniform(0, epoch, 0))
    edges = [part * video.num_frames // num_frames for part in range(num_frames + 1)]
    assert all(low <= frame < high for low, frame, high in zip(edges, frames, edges[1:], strict=False))


@given(records(), st.floats(0, 1, exclude_max=True), st.integers(1, 10))
def test_jittered_sparse_moments_lie_in_their_parts(video: Video, uniform: float, num_frames: int) -> None:
    sampler = SparseFrames(num_frames, by="time", jitter=True, short="drop")
    if count(sampler, video)[0]:
        moments = video.pts()[0] + (np.arange(num_frames) + uniform) * video.duration / num_frames
        assert_shown_at(video, sampler.frames(video, 0, always(uniform)), moments)


def test_jitter_reaches_every_frame() -> None:
    sampler = SparseFrames(3, jitter=True, clips_per_video=2)
    seen = {int(i) for sample in range(300) for i in sampler.frames(constant(20), 1, clip_uniform(0, 0, sample))}
    assert seen == set(range(20))


def test_clips_of_a_long_film_take_few_look_ups() -> None:
    class Counting(np.ndarray):
        looked_up = 0

        def __getitem__(self, key: object) -> object:
            found = super().__getitem__(key)  # type: ignore[index]
            Counting.looked_up += int(np.size(found))
            return found

    film = constant(2_000_000)
    object.__setattr__(film, "frame_packets", film.frame_packets.view(Counting))
    for sampler in (
        RandomClips(16, fps=10),
        UniformClips(16, fps=10),
        DenseClips(16, fps=10),
        SparseFrames(16, by="time"),
    ):
        Counting.looked_up = 0
        sampler.frames(film, 0, always(0.5))
        assert 0 < Counting.looked_up < 16 * 25
