"""Turning: a placement is planned in the picture as shown, a decoder works in the picture as coded."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vidload.index.video import Video
from vidload.transforms.geometry import Placement

__all__ = ["as_coded", "as_shown"]

_Rectangle = tuple[int, int, int, int]


def as_coded(video: Video, placement: Placement) -> Placement:
    """The same placement in the coded picture; its `flip` is left for `as_shown`."""
    if not video.rotation and not video.mirrored:
        return placement
    shown_width, shown_height = video.display_size
    turned = video.rotation in (90, 270)
    scaled = placement.scaled[::-1] if turned else placement.scaled
    return Placement(
        crop=_turn_back(placement.crop, shown_width, shown_height, video),
        scaled=scaled,
        window=_turn_back(placement.window, *placement.scaled, video),
        flip=placement.flip,
    )


def as_shown(video: Video, placement: Placement, frame: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """View of a decoded frame, mirrored and turned for showing, then mirrored where the placement flips it."""
    if video.mirrored:
        frame = frame[:, ::-1]
    if video.rotation:
        frame = np.rot90(frame, -(video.rotation // 90))
    return frame[:, ::-1] if placement.flip else frame


def _turn_back(rectangle: _Rectangle, width: int, height: int, video: Video) -> _Rectangle:
    """Where a rectangle of a shown picture of `width` × `height` lies in the coded one."""
    x, y, w, h = rectangle
    if video.rotation == 90:
        x, y, w, h, width = y, width - x - w, h, w, height
    elif video.rotation == 180:
        x, y = width - x - w, height - y - h
    elif video.rotation == 270:
        x, y, w, h, width = height - y - h, x, h, w, height
    return (width - x - w if video.mirrored else x), y, w, h
