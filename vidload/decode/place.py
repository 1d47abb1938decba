"""Placing frames that were decoded whole: crop, scale, window, turn and flip, as torch operations on any device."""

from __future__ import annotations

import torch
from torch.nn.functional import interpolate

from vidload.decode.encoded import EncodedClip

__all__ = ["place"]


def place(frames: torch.Tensor, clip: EncodedClip) -> torch.Tensor:
    """Make of whole coded pictures what the clip shows.

    Scaling is cubic and antialiased (Keys' kernel with a = -0.5, stretched where it reduces), in RGB; libswscale's, on
    the CPU backends, is cubic with a = -0.6, in YUV.

    Args:
        frames: uint8[N, H, W, 3], RGB.
        clip: Says how.

    Returns:
        uint8[N, h, w, 3], of the placement's window.
    """
    placement = clip.placement
    x, y, width, height = placement.crop
    picture = frames[:, y : y + height, x : x + width]
    if placement.scaled != (width, height):
        scaled_width, scaled_height = placement.scaled
        values = picture.permute(0, 3, 1, 2).to(torch.float32)
        values = interpolate(values, (scaled_height, scaled_width), mode="bicubic", antialias=True)
        picture = values.permute(0, 2, 3, 1)
    x, y, width, height = placement.window
    picture = picture[:, y : y + height, x : x + width]
    if picture.dtype != torch.uint8:
        picture = picture.round().clamp(0, 255).to(torch.uint8)
    if clip.mirrored:
        picture = picture.flip(2)
    if clip.rotation:
        picture = torch.rot90(picture, -(clip.rotation // 90), (1, 2))
    return picture.flip(2) if placement.flip else picture
