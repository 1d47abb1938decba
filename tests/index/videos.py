"""Videos made by hand, and how to tell that two are the same."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np

from vidload.index.video import Video


def make_video(number: int = 0, packets: int = 6, **facts: Any) -> Video:
    """A video whose facts all differ from their defaults, and from those of another number."""
    random = np.random.default_rng(number)
    shown = np.delete(np.arange(packets, dtype=np.int32), slice(1, 2))
    return Video(
        **{
            "path": f"/films/{number}.mp4",
            "file_size": 10_000_000_000 + number,
            "mtime_ns": 1_700_000_000_123_456_789 + number,
            "container": "matroska,webm",
            "stream_index": 1,
            "codec": "hevc",
            "codec_tag": "hvc1",
            "pix_fmt": "yuv420p10le",
            "width": 640 + number,
            "height": 360,
            "rotation": 270,
            "mirrored": True,
            "sample_aspect_ratio": Fraction(4, 3),
            "color_range": 1,
            "color_space": 9,
            "color_primaries": 8,
            "color_trc": 7,
            "bits_per_coded_sample": 24,
            "time_base": Fraction(1, 90_000),
            "fps": 24000 / 1001 + number,
            "constant_fps": True,
            "duration": 0.25 + number,
            "offsets_exact": True,
            "header": bytes([number % 256, 0, 255]),
            "packet_pts": random.permutation(packets).astype(np.int64) * 3003 + (1 << 40),
            "packet_dts": np.arange(packets) * 3003 + np.iinfo(np.int64).min,
            "packet_pos": np.arange(packets) * 1000 + (1 << 36),
            "packet_size": random.integers(1, 1 << 31, packets).astype(np.int32),
            "packet_flags": random.integers(0, 16, packets).astype(np.uint8),
            "frame_packets": random.permutation(shown),
            **facts,
        }
    )


def assert_same(got: Video, wanted: Video, *, apart_from: tuple[str, ...] = ()) -> None:
    """Every attribute is equal and of the same type."""
    for field in dataclasses.fields(Video):
        if field.name not in apart_from:
            left, right = getattr(got, field.name), getattr(wanted, field.name)
            assert type(left) is type(right), field.name
            if isinstance(left, np.ndarray):
                assert left.dtype == right.dtype, field.name
                assert left.tolist() == right.tolist(), field.name
            else:
                assert left == right, field.name
