"""Planar YUV 4:2:0 on its way to the device: how the bytes lie, and what has to be known to make colours of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from vidload.errors import ArgumentError

__all__ = ["DTYPES", "MATRICES", "PlaneColour", "Wire", "check_wire", "clip_shape", "frame_bytes"]

Wire = Literal["rgb", "rgb48", "yuv420"]
"""How a clip's pixels lie in memory, as bytes: RGB, uint8[T, H, W, 3]; RGB of two bytes a value in the machine's order,
uint8[T, H, W, 6]; or YUV 4:2:0, uint8[T, H * 3 // 2, W].

A frame of the last is width * height bytes of Y, then a quarter as many of U, then as many of V, row after row.
"""

DTYPES: dict[str, Wire] = {"uint8": "rgb", "uint16": "rgb48"}
"""By the type of a clip's values, how RGB of it lies in memory."""

MATRICES: dict[str, tuple[float, float]] = {
    "bt601": (0.299, 0.114),
    "bt709": (0.2126, 0.0722),
    "bt2020": (0.2627, 0.0593),
    "fcc": (0.30, 0.11),
    "smpte240m": (0.212, 0.087),
}
"""Kr and Kb, the shares of red and blue in luma, by the matrix's name; its place here is its number on the device.

From ITU-T H.273, table 4 (MatrixCoefficients 5 and 6, 1, 9, 4 and 7).
"""


@dataclass(frozen=True, slots=True)
class PlaneColour:
    """What the numbers in a clip's planes mean.

    Attributes:
        matrix: One of `MATRICES`.
        full_range: Whether Y goes from 0 to 255 and chroma reaches as far, not 16 to 235 and 240.
        siting: (x, y) of the first chroma sample, in pixels from the first luma sample; others follow every 2 pixels.
            (0, 0.5) is what MPEG-2 and later codecs do ("left"), (0.5, 0.5) is JPEG's. Mirroring, turning and a window
            that begins at an odd pixel change it, to something from -0.5 to 1.5.
    """

    matrix: str
    full_range: bool
    siting: tuple[float, float] = (0.0, 0.5)

    def mirrored(self) -> PlaneColour:
        """The colour of the same planes, each mirrored left to right."""
        x, y = self.siting
        return PlaneColour(self.matrix, self.full_range, (1 - x, y))

    def turned(self, quarters: int) -> PlaneColour:
        """The colour of the same planes, each turned clockwise by quarters of a circle."""
        x, y = self.siting
        for _ in range(quarters % 4):
            x, y = 1 - y, x
        return PlaneColour(self.matrix, self.full_range, (x, y))

    def cut(self, x: int, y: int) -> PlaneColour:
        """The colour of a window at (x, y) whose chroma begins at ((x + 1) // 2, (y + 1) // 2)."""
        return PlaneColour(self.matrix, self.full_range, (self.siting[0] + x % 2, self.siting[1] + y % 2))


def check_wire(wire: Any) -> None:
    """Refuse a form that doesn't exist.

    Raises:
        ArgumentError: If it doesn't.
    """
    if wire not in get_args(Wire):
        # rgb48 is what a data set's dtype makes of rgb
        raise ArgumentError(f"wire={wire!r}: there are 'rgb', 'yuv420'")


def clip_shape(wire: Wire, frames: int, height: int, width: int) -> tuple[int, ...]:
    """Shape of a clip's memory.

    Raises:
        ArgumentError: If there is no such form, or it needs even sides and one isn't.
    """
    check_wire(wire)
    if wire != "yuv420":
        return frames, height, width, 3 if wire == "rgb" else 6
    if height % 2 or width % 2:
        raise ArgumentError(
            f"wire='yuv420' with clips {width} pixels wide and {height} high: both have to be even, colour has half "
            "the resolution; choose an even size, or wire='rgb'"
        )
    return frames, height * 3 // 2, width


def frame_bytes(wire: Wire, height: int, width: int) -> int:
    """Bytes of a frame.

    Raises:
        ArgumentError: As `clip_shape`.
    """
    return math.prod(clip_shape(wire, 1, height, width))
