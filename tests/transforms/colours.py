"""Colours in float64: RGB of planes, and planes of RGB, by their definitions and pixel by pixel."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vidload.transforms.planar import PlaneColour

Floats = npt.NDArray[np.float64]

SHARES = {
    "bt601": (0.299, 0.114),
    "bt709": (0.2126, 0.0722),
    "bt2020": (0.2627, 0.0593),
    "fcc": (0.30, 0.11),
    "smpte240m": (0.212, 0.087),
}
"""Kr and Kb, from ITU-T H.273."""


def to_yuv(rgb: npt.ArrayLike, matrix: str, full_range: bool, bits: int = 8) -> Floats:
    """YUV, not rounded, of RGB in 0 to 255; the last axis has the three."""
    red, green, blue = np.moveaxis(np.asarray(rgb, np.float64) / 255, -1, 0)
    kr, kb = SHARES[matrix]
    y = kr * red + (1 - kr - kb) * green + kb * blue
    u, v = (blue - y) / (2 - 2 * kb), (red - y) / (2 - 2 * kr)
    top, unit = 2**bits - 1, 2 ** (bits - 8)
    if full_range:
        return np.stack([y * top, u * top + 128 * unit, v * top + 128 * unit], -1)
    return np.stack([(16 + 219 * y) * unit, (128 + 224 * u) * unit, (128 + 224 * v) * unit], -1)


def to_rgb(yuv: npt.ArrayLike, matrix: str, full_range: bool) -> Floats:
    """RGB in 0 to 255, clipped, of 8-bit YUV."""
    y, u, v = np.moveaxis(np.asarray(yuv, np.float64), -1, 0)
    kr, kb = SHARES[matrix]
    y = y / 255 if full_range else (y - 16) / 219
    u, v = ((part - 128) / (255 if full_range else 224) for part in (u, v))
    red, blue = y + 2 * (1 - kr) * v, y + 2 * (1 - kb) * u
    green = (y - kr * red - kb * blue) / (1 - kr - kb)
    return np.clip(np.stack([red, green, blue], -1), 0, 1) * 255


def split_planes(frame: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint8], ...]:
    """Y, U and V of uint8[H * 3 // 2, W]."""
    height, width = frame.shape[0] * 2 // 3, frame.shape[1]
    flat, size = frame.reshape(-1), height * width
    quarter = (height // 2, width // 2)
    return (
        flat[:size].reshape(height, width),
        flat[size : size * 5 // 4].reshape(quarter),
        flat[size * 5 // 4 :].reshape(quarter),
    )


def planes_to_rgb(frame: npt.NDArray[np.uint8], colour: PlaneColour) -> Floats:
    """RGB of uint8[H * 3 // 2, W], chroma interpolated where its siting says it lies."""
    luma, *chroma = split_planes(frame)
    height, width = luma.shape
    across, down = ((np.arange(size) - first) / 2 for size, first in zip((width, height), colour.siting, strict=True))
    fine = []
    for plane in chroma:
        wide = np.stack([np.interp(across, np.arange(width // 2), row) for row in plane.astype(np.float64)])
        fine.append(np.stack([np.interp(down, np.arange(height // 2), column) for column in wide.T]).T)
    return to_rgb(np.stack([luma, *fine], -1), colour.matrix, colour.full_range)
