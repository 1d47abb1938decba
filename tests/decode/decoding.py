"""Decoding some frames of a film, to planes or to RGB."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vidload.decode.backends import Backends
from vidload.decode.protocol import Frames
from vidload.index.video import Video
from vidload.transforms.geometry import Geometry, Placement, make_geometry
from vidload.transforms.planar import PlaneColour, clip_shape


def decode(
    video: Video,
    frames: Sequence[int],
    size: int | tuple[int, int] | Geometry | Placement | None = None,
    *,
    backends: Backends | None = None,
) -> tuple[Frames, PlaneColour]:
    """Planes uint8[T, H * 3 // 2, W] and their colour."""
    placement = size
    if not isinstance(placement, Placement):
        placement = make_geometry(size).plan(*video.display_size, lambda: 0.5)  # type: ignore[arg-type]
    shape = clip_shape("yuv420", len(frames), placement.window[3], placement.window[2])
    out = np.full(shape, 77, np.uint8)
    times = (backends or Backends()).decode(video, frames, placement, out, wire="yuv420")
    assert times.colour is not None
    return out, times.colour


def decode_rgb(video: Video, frames: Sequence[int], placement: Placement) -> Frames:
    out = np.empty((len(frames), placement.window[3], placement.window[2], 3), np.uint8)
    Backends("pyav").decode(video, frames, placement, out)
    return out
