"""Decode-time geometry: which part of the picture, at which size, mirrored or not.

A geometry (what the user asks for) plans one `Placement` per clip from the clip's own random numbers; a decoder carries
the placement out. The two steps match torchvision's transforms of the same names in what they cut and scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from vidload.errors import ArgumentError

__all__ = ["CenterCrop", "Geometry", "NativeSize", "Placement", "RandomResizedCrop", "Resize", "make_geometry"]

MAX_SIZE = 16384
"""Largest output side in pixels; libswscale refuses more."""

Uniform = Callable[[], float]
"""Gives the clip's next random number, uniform in [0, 1)."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Cut `crop` out of the picture, scale it to `scaled`, cut `window` out of that, mirror it where `flip`.

    All in pixels of the picture as shown (after rotation).

    Attributes:
        crop: (x, y, width, height) in the source picture; x, y, width and height are even unless it is all of it.
        scaled: (width, height) that the crop is scaled to.
        window: (x, y, width, height) in the scaled picture; width and height are the output's.
        flip: Whether the output is mirrored left to right.
    """

    crop: tuple[int, int, int, int]
    scaled: tuple[int, int]
    window: tuple[int, int, int, int]
    flip: bool = False


class Geometry(Protocol):
    """Plans the placement of one clip."""

    @property
    def output_size(self) -> tuple[int, int] | None:
        """(height, width) of every clip, or None where it depends on the video."""
        ...

    def plan(self, width: int, height: int, uniform: Uniform) -> Placement:
        """Place a picture of `width` × `height` pixels, with random choices from `uniform`."""
        ...


def _check_size(name: str, size: Any) -> tuple[int, int]:
    pair = size if isinstance(size, (tuple, list)) else (size, size)
    whole = all(isinstance(side, int) and not isinstance(side, bool) for side in pair)
    if len(pair) != 2 or not whole or not all(1 <= side <= MAX_SIZE for side in pair):
        raise ArgumentError(f"{name}={size!r}: give a side, or (height, width), of 1 to {MAX_SIZE} pixels")
    return pair[0], pair[1]


@dataclass(frozen=True)
class NativeSize:
    """The picture as it is; clips of videos of different sizes then don't fit into one batch."""

    @property
    def output_size(self) -> None:
        """None: it depends on the video."""
        return None

    def plan(self, width: int, height: int, uniform: Uniform) -> Placement:
        """Place the whole picture unscaled."""
        return Placement((0, 0, width, height), (width, height), (0, 0, width, height))


@dataclass(frozen=True)
class Resize:
    """The whole picture at exactly `size`, whatever becomes of its aspect.

    Args:
        size: Side, or (height, width), in pixels.
    """

    size: int | tuple[int, int]

    def __post_init__(self) -> None:
        _check_size("Resize size", self.size)

    @property
    def output_size(self) -> tuple[int, int]:
        """(height, width) in pixels."""
        return _check_size("Resize size", self.size)

    def plan(self, width: int, height: int, uniform: Uniform) -> Placement:
        """Scale all of the picture to the size."""
        out_height, out_width = self.output_size
        return Placement((0, 0, width, height), (out_width, out_height), (0, 0, out_width, out_height))


@dataclass(frozen=True)
class CenterCrop:
    """The short side scaled to `resize` (by default: just enough to cover `size`), then the centre of it cut out.

    Args:
        size: Side, or (height, width), of the output in pixels.
        resize: Length of the scaled picture's short side in pixels, or None.
        flip: Probability of mirroring the clip left to right.
    """

    size: int | tuple[int, int]
    resize: int | None = None
    flip: float = 0.0

    def __post_init__(self) -> None:
        out_height, out_width = _check_size("CenterCrop size", self.size)
        whole = isinstance(self.resize, int) and not isinstance(self.resize, bool)
        if self.resize is not None and not (whole and max(out_height, out_width) <= self.resize <= MAX_SIZE):
            raise ArgumentError(
                f"CenterCrop resize={self.resize!r}: the short side has to cover size={self.size!r} "
                f"and be at most {MAX_SIZE} pixels"
            )
        _check_probability("CenterCrop flip", self.flip)

    @property
    def output_size(self) -> tuple[int, int]:
        """(height, width) in pixels."""
        return _check_size("CenterCrop size", self.size)

    def plan(self, width: int, height: int, uniform: Uniform) -> Placement:
        """Scale the whole picture, then cut its centre."""
        out_height, out_width = self.output_size
        flip = uniform() < self.flip
        # The scale is a fraction, so that one side comes out exactly; the other is cut down to whole pixels, and half
        # a pixel beside the centre rounds to even, both as in torchvision.
        if self.resize is not None:
            scaled, side = self.resize, min(width, height)
        elif out_width * height >= out_height * width:
            scaled, side = out_width, width
        else:
            scaled, side = out_height, height
        scaled_width = min(width * scaled // side, MAX_SIZE)
        scaled_height = min(height * scaled // side, MAX_SIZE)
        x, y = round((scaled_width - out_width) / 2), round((scaled_height - out_height) / 2)
        return Placement((0, 0, width, height), (scaled_width, scaled_height), (x, y, out_width, out_height), flip)


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random part of the picture scaled to `size`, one for all frames of a clip, mirrored half of the time.

    The choice of area and aspect is the one of Szegedy et al. 2015 (https://arxiv.org/abs/1409.4842), as in
    torchvision: up to ten draws, then the largest centred part within the aspect limits.

    Args:
        size: Side, or (height, width), of the output in pixels.
        scale: Smallest and largest share of the picture's area.
        ratio: Smallest and largest aspect (width over height) of the part.
        flip: Probability of mirroring the clip left to right.
    """

    size: int | tuple[int, int]
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5

    def __post_init__(self) -> None:
        _check_size("RandomResizedCrop size", self.size)
        if not _is_range(self.scale, 1):
            raise ArgumentError(f"RandomResizedCrop scale={self.scale!r}: give (smallest, largest) within 0 to 1")
        if not _is_range(self.ratio, math.inf):
            raise ArgumentError(f"RandomResizedCrop ratio={self.ratio!r}: give (smallest, largest), both above 0")
        _check_probability("RandomResizedCrop flip", self.flip)

    @property
    def output_size(self) -> tuple[int, int]:
        """(height, width) in pixels."""
        return _check_size("RandomResizedCrop size", self.size)

    def plan(self, width: int, height: int, uniform: Uniform) -> Placement:
        """Cut a random part, then scale it."""
        out_height, out_width = self.output_size
        flip = uniform() < self.flip
        x, y, crop_width, crop_height = self._draw(width, height, uniform)
        # Even edges, so that a crop in YUV 4:2:0 is the same as one in RGB.
        crop_width, crop_height = _even(crop_width, width), _even(crop_height, height)
        crop = (min(x, width - crop_width) & ~1, min(y, height - crop_height) & ~1, crop_width, crop_height)
        return Placement(crop, (out_width, out_height), (0, 0, out_width, out_height), flip)

    def _draw(self, width: int, height: int, uniform: Uniform) -> tuple[int, int, int, int]:
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        for _ in range(10):
            area = width * height * (self.scale[0] + (self.scale[1] - self.scale[0]) * uniform())
            aspect = math.exp(low + (high - low) * uniform())
            crop_width, crop_height = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < crop_width <= width and 0 < crop_height <= height:
                x = int(uniform() * (width - crop_width + 1))
                y = int(uniform() * (height - crop_height + 1))
                return x, y, crop_width, crop_height
        aspect = min(max(width / height, self.ratio[0]), self.ratio[1])
        crop_width, crop_height = min(width, round(height * aspect)), min(height, round(width / aspect))
        return (width - crop_width) // 2, (height - crop_height) // 2, crop_width, crop_height


def _even(length: int, limit: int) -> int:
    return length if length == limit else max(length & ~1, min(2, limit))


def _is_range(pair: Any, largest: float) -> bool:
    """Whether it is (smallest, largest), both above 0 and finite."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not all(isinstance(end, (int, float)) for end in pair):
        return False
    return bool(0 < pair[0] <= pair[1] <= largest) and math.isfinite(pair[1])


def _check_probability(name: str, value: Any) -> None:
    if not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ArgumentError(f"{name}={value!r}: give a probability within 0 to 1")


def make_geometry(size: int | tuple[int, int] | Geometry | None) -> Geometry:
    """Geometry for the `size` argument of a data set: None is native, a size is `CenterCrop(size)`.

    Raises:
        ArgumentError: If `size` is none of these, or a size that can't work.
    """
    if size is None:
        return NativeSize()
    if isinstance(size, (int, tuple, list)):
        return CenterCrop(_check_size("size", size))
    if hasattr(size, "plan") and hasattr(size, "output_size"):
        return size
    raise ArgumentError(
        f"size={size!r}: give a side in pixels, (height, width), None for native size, or a geometry such as "
        "vidload.RandomResizedCrop(224)"
    )
