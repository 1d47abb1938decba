"""Made-up video records for samplers, which look at nothing but timestamps."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from vidload.index.video import Video

MILLISECOND = Fraction(1, 1000)


def record(pts: Sequence[int], last: int, time_base: Fraction = MILLISECOND) -> Video:
    """A video whose frames have the given pts, in ticks, and whose last frame is shown for `last` ticks.

    Packets lie in another order than frames, as with B-frames.
    """
    shown = np.asarray(pts, dtype=np.int64)
    frame_packets = np.arange(len(shown), dtype=np.int32)[::-1]
    return Video(
        path="/films/record.mp4",
        file_size=1,
        mtime_ns=1,
        container="mov,mp4,m4a,3gp,3g2,mj2",
        stream_index=0,
        codec="h264",
        codec_tag="avc1",
        pix_fmt="yuv420p",
        width=64,
        height=48,
        rotation=0,
        mirrored=False,
        sample_aspect_ratio=Fraction(1),
        color_range=0,
        color_space=2,
        color_primaries=2,
        color_trc=2,
        bits_per_coded_sample=24,
        time_base=time_base,
        fps=float(len(shown) / ((shown[-1] - shown[0] + last) * time_base)),
        constant_fps=False,
        duration=float((shown[-1] - shown[0] + last) * time_base),
        offsets_exact=True,
        header=b"",
        packet_pts=shown[::-1],
        packet_dts=np.arange(len(shown), dtype=np.int64),
        packet_pos=np.arange(len(shown), dtype=np.int64),
        packet_size=np.ones(len(shown), dtype=np.int32),
        packet_flags=np.ones(len(shown), dtype=np.uint8),
        frame_packets=frame_packets,
    )


def constant(num_frames: int, fps: int = 25, first: int = 0) -> Video:
    """A video of a constant rate, one tick a frame."""
    return record(range(first, first + num_frames), 1, Fraction(1, fps))


def records() -> st.SearchStrategy[Video]:
    """Videos of a variable rate, in milliseconds, beginning anywhere near zero."""
    durations = st.lists(st.integers(1, 400), min_size=1, max_size=120)
    return st.builds(_from_durations, st.integers(-500, 5000), durations)


def _from_durations(first: int, durations: list[int]) -> Video:
    pts = first + np.concatenate([[0], np.cumsum(durations[:-1])]).astype(int)
    return record(pts.tolist(), durations[-1])
