"""Cropping and scaling a whole picture on the CPU, for backends that give no other."""

from __future__ import annotations

import av
import numpy as np

from vidload.decode.protocol import Frames
from vidload.transforms.geometry import Placement

__all__ = ["crop_and_scale"]


def crop_and_scale(frame: Frames, placement: Placement) -> Frames:
    """Cut `placement.crop` out of a picture and scale it to `placement.scaled`, with libswscale's cubic kernel.

    Args:
        frame: uint8[H, W, 3], RGB.
        placement: In this picture.

    Returns:
        uint8[h, w, 3].
    """
    x, y, width, height = placement.crop
    if (width, height) == placement.scaled:
        return frame[y : y + height, x : x + width]
    crop = np.ascontiguousarray(frame[y : y + height, x : x + width])
    scaled = av.VideoFrame.from_ndarray(crop, format="rgb24").reformat(*placement.scaled, interpolation="BICUBIC")
    return scaled.to_ndarray().astype(np.uint8, copy=False)
