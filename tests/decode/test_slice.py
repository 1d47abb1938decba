"""A slice holds what its frames need, starts where decoding can start, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.index.videos import make_video
from vidload.decode.slice import SlicePlan, keyframes_of, plan_slice
from vidload.errors import ArgumentError, DecodeError
from vidload.index.video import DISCARD, DISPOSABLE, HIDDEN, KEY, Video


def made(flags: list[int], pts: list[int]) -> Video:
    """A video of these packets; those that are neither discarded nor hidden give frames."""
    shown = [number for number, flag in enumerate(flags) if not flag & (DISCARD | HIDDEN)]
    return make_video(
        packets=len(flags),
        path="/films/made.mp4",
        packet_flags=np.array(flags, np.uint8),
        packet_pts=np.array(pts, np.int64),
        frame_packets=np.array(sorted(shown, key=lambda number: pts[number]), np.int32),
    )


@st.composite
def videos(draw: st.DrawFn) -> Video:
    """Videos of closed and open GOPs, their frames reordered, with disposable, hidden and discarded packets."""
    flags: list[int] = []
    pts: list[int] = []
    clock = 0
    for gop in range(draw(st.integers(1, 5))):
        leading = draw(st.integers(0, 3)) if gop else 0
        trailing = draw(st.integers(0, 6))
        times = list(range(clock, clock + leading + 1 + trailing))
        clock += len(times)
        key_time = times[leading]
        others = draw(st.permutations([time for time in times if time != key_time]))
        extra = st.sampled_from([0, 0, 0, DISPOSABLE, DISPOSABLE, HIDDEN, DISCARD])
        for number, time in enumerate([key_time, *others]):
            flag = draw(st.sampled_from([0, 0, 0, 0, DISCARD, HIDDEN])) | KEY if number == 0 else draw(extra)
            flags.append(flag)
            pts.append(key_time if flag & HIDDEN else time)  # as the index has it: hidden packets aren't leading ones
    if all(flag & (HIDDEN | DISCARD) for flag in flags):
        flags[-1] &= ~(HIDDEN | DISCARD)
    return made(flags, pts)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Video, list[int]]:
    video = draw(videos())
    return video, draw(st.lists(st.integers(0, video.num_frames - 1), min_size=1, max_size=8))


def start_of(video: Video, packet: int) -> int:
    """The keyframe that a packet needs: a leading picture needs the one before its own."""
    keys = [number for number in range(packet + 1) if video.packet_flags[number] & KEY]
    if video.packet_pts[packet] < video.packet_pts[keys[-1]] and len(keys) > 1:
        return keys[-2]
    return keys[-1]


def own_leading(video: Video, start: int) -> set[int]:
    """Packets of a keyframe's own GOP that are shown before it."""
    leading = set()
    for packet in range(start + 1, len(video.packet_flags)):
        if video.packet_flags[packet] & KEY:
            break
        if video.packet_pts[packet] < video.packet_pts[start]:
            leading.add(packet)
    return leading


def packets_of(plan: SlicePlan) -> list[int]:
    return [packet for run in plan.runs for packet in run.tolist()]


@given(requests())
def test_every_wanted_frame_is_in_the_slice_in_the_order_asked(request_: tuple[Video, list[int]]) -> None:
    video, frames = request_
    plan = plan_slice(video, frames)
    assert plan.wanted.tolist() == [int(video.frame_packets[frame]) for frame in frames]
    assert set(plan.wanted.tolist()) <= set(packets_of(plan))
    assert plan.num_wanted == len(set(frames))
    assert plan.num_packets == len(packets_of(plan))


@given(requests(), st.booleans())
def test_every_run_starts_at_a_keyframe_and_ends_at_a_wanted_frame(
    request_: tuple[Video, list[int]], drop: bool
) -> None:
    video, frames = request_
    plan = plan_slice(video, frames, drop_disposable=drop)
    packets = packets_of(plan)
    assert packets == sorted(set(packets))  # decode order, no packet twice
    for run in plan.runs:
        assert run.dtype == np.int64
        assert video.packet_flags[run[0]] & KEY
        assert run[-1] in plan.wanted


@given(requests(), st.booleans())
def test_every_wanted_frame_has_the_keyframe_it_needs_in_its_run(request_: tuple[Video, list[int]], drop: bool) -> None:
    video, frames = request_
    plan = plan_slice(video, frames, drop_disposable=drop)
    for wanted in plan.wanted.tolist():
        run = next(run.tolist() for run in plan.runs if wanted in run)
        assert start_of(video, wanted) in run


@given(requests())
def test_all_that_may_be_referred_to_is_kept(request_: tuple[Video, list[int]]) -> None:
    video, frames = request_
    for run in plan_slice(video, frames).runs:
        between = set(range(int(run[0]), int(run[-1]) + 1)) - own_leading(video, int(run[0]))
        assert {packet for packet in between if not video.packet_flags[packet] & DISPOSABLE} <= set(run.tolist())


@given(requests(), st.booleans())
def test_nothing_else_is_kept(request_: tuple[Video, list[int]], drop: bool) -> None:
    """No GOP that no frame needs, no disposable packet but wanted ones, no leading picture without its references."""
    video, frames = request_
    plan = plan_slice(video, frames, drop_disposable=drop)
    wanted = set(plan.wanted.tolist())
    needed = {packet for end in wanted for packet in range(start_of(video, end), end + 1)}
    needed -= {packet for run in plan.runs for packet in own_leading(video, int(run[0]))}
    if drop:
        needed = {packet for packet in needed if not video.packet_flags[packet] & DISPOSABLE}
    assert set(packets_of(plan)) == needed | wanted


@given(requests(), st.integers(1, 4))
def test_earlier_keyframes_are_taken_where_there_are_any(request_: tuple[Video, list[int]], earlier: int) -> None:
    video, frames = request_
    keys = np.flatnonzero(video.packet_flags & KEY).tolist()
    plan = plan_slice(video, frames, earlier_keyframes=earlier)
    for wanted in plan.wanted.tolist():
        run = next(run for run in plan.runs if wanted in run)
        assert run[0] <= keys[max(keys.index(start_of(video, wanted)) - earlier, 0)]


@given(videos())
def test_keyframes_of_packets_are_those_they_need(video: Video) -> None:
    packets = np.arange(len(video.packet_flags))
    keys, at = keyframes_of(video, packets)
    assert keys[at].tolist() == [start_of(video, int(packet)) for packet in packets]


def test_an_open_gop_by_hand() -> None:
    # decode order   I0 P3 b1 b2 | I6 b4 b5 P9 b7 b8
    pts = [0, 3, 1, 2, 6, 4, 5, 9, 7, 8]
    flags = [KEY, 0, DISPOSABLE, DISPOSABLE, KEY, DISPOSABLE, DISPOSABLE, 0, DISPOSABLE, DISPOSABLE]
    video = made(flags, pts)
    assert [run.tolist() for run in plan_slice(video, [5]).runs] == [[0, 1, 4, 6]]  # a leading picture
    assert [run.tolist() for run in plan_slice(video, [7]).runs] == [[4, 7, 8]]
    assert [run.tolist() for run in plan_slice(video, [1, 9]).runs] == [[0, 1, 2], [4, 7]]
    assert [run.tolist() for run in plan_slice(video, [9, 4, 1]).runs] == [[0, 1, 2, 4, 5, 7]]
    assert plan_slice(video, [9, 4, 1]).wanted.tolist() == [7, 5, 2]


def test_frames_outside_the_video_are_refused() -> None:
    video = made([KEY, 0, 0], [0, 1, 2])
    for frames in ([3], [0, -1], [10**9]):
        with pytest.raises(ArgumentError, match=r"made\.mp4: frame -?\d+ is outside the video, which has 3 frames"):
            plan_slice(video, frames)


def test_no_frames_are_refused() -> None:
    with pytest.raises(ArgumentError, match="at least one frame"):
        plan_slice(made([KEY], [0]), [])


def test_a_frame_before_the_first_keyframe_is_an_error() -> None:
    video = made([0, 0, KEY, 0], [0, 1, 2, 3])
    with pytest.raises(DecodeError, match=r"made\.mp4: frame 1 has no keyframe"):
        plan_slice(video, [3, 1])
    assert [run.tolist() for run in plan_slice(video, [3]).runs] == [[2, 3]]
