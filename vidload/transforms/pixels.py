"""From decoded bytes to a batch that a model takes, on the device: colours, flip, jitter, normalisation, type, layout.

What is random is drawn on the CPU (`DeviceTransform.parameters`) from numbers of the clip's own; what is done with it
is batched torch operations whose shapes follow from the arguments' shapes. Nothing waits for the device.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from vidload.errors import ArgumentError
from vidload.transforms.colour import yuv420_to_rgb

__all__ = ["ColorJitter", "DeviceTransform"]

Range = tuple[float, float]

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "uint8": torch.uint8}
_LAYOUTS = ("BCTHW", "BTCHW")
_JITTERS = ("brightness", "contrast", "saturation", "hue")
# Shares of red, green and blue in a pixel's lightness, as torchvision and Pillow have them (BT.601 to four places).
_GREY = (0.2989, 0.587, 0.114)


@dataclass(frozen=True)
class ColorJitter:
    """Random changes of colour, the same for all frames of a clip.

    Ranges as of torchvision's ``ColorJitter``. Each change that has a range is done in the order of the arguments:
    torchvision draws the order, for which the clips of a batch would have to be done one by one.

    Args:
        brightness: Factor of all values: ``b`` for max(0, 1 - b) to 1 + b, or (smallest, largest).
        contrast: Factor of the distance from the frame's mean lightness, likewise.
        saturation: Factor of the distance from the pixel's lightness, likewise.
        hue: Turn of the hue in HSV, as a share of the circle: ``h``, at most 0.5, for -h to h, or (smallest, largest).

    Raises:
        ArgumentError: If a range can't work.
    """

    brightness: float | Range = 0.0
    contrast: float | Range = 0.0
    saturation: float | Range = 0.0
    hue: float | Range = 0.0

    def __post_init__(self) -> None:
        for name in _JITTERS:
            object.__setattr__(self, name, _check_range(name, getattr(self, name)))

    @property
    def ranges(self) -> dict[str, Range]:
        """(smallest, largest) of each change that isn't none at all."""
        neutral = {name: 0.0 if name == "hue" else 1.0 for name in _JITTERS}
        pairs: dict[str, Range] = {name: getattr(self, name) for name in _JITTERS}
        return {name: pair for name, pair in pairs.items() if pair != (neutral[name], neutral[name])}


@dataclass(frozen=True)
class DeviceTransform:
    """Makes a batch of floats of uint8 clips, on the device where they are.

    In this order: flip, RGB of planar YUV (not rounded), values 0 to 1, jitter, normalisation, type. The result has the
    clips' order of memory, B×T×H×W×C, for either layout: BCTHW then is torch's ``channels_last_3d``, and merging B and
    T of BTCHW gives ``channels_last`` frames without a copy.

    Args:
        mean: Three values of 0 to 1, subtracted from red, green and blue; None for 0.
        std: Three values above 0 that these are then divided by; None for 1.
        dtype: ``"float32"``, ``"float16"``, ``"bfloat16"`` or ``"uint8"`` (0 to 255 again; without mean and std), or
            torch's name of it. The arithmetic is float32.
        layout: ``"BCTHW"`` or ``"BTCHW"``.
        flip: Probability of mirroring a clip left to right (geometries such as `RandomResizedCrop` have one too).
        jitter: Random changes of colour, or None.
        compile: Whether `torch.compile` fuses it.

    Raises:
        ArgumentError: If an argument can't work.
    """

    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None
    dtype: str | torch.dtype = "float32"
    layout: str = "BCTHW"
    flip: float = 0.0
    jitter: ColorJitter | None = None
    compile: bool = False

    def __post_init__(self) -> None:
        name = str(self.dtype).removeprefix("torch.")
        if name not in _DTYPES:
            raise ArgumentError(f"dtype={self.dtype!r}: there are {', '.join(map(repr, _DTYPES))}")
        object.__setattr__(self, "dtype", name)
        if self.layout not in _LAYOUTS:
            raise ArgumentError(f"layout={self.layout!r}: there are {', '.join(map(repr, _LAYOUTS))}")
        object.__setattr__(self, "mean", _check_channels("mean", self.mean, lambda value: math.isfinite(value)))
        object.__setattr__(self, "std", _check_channels("std", self.std, lambda value: 0 < value < math.inf))
        if name == "uint8" and (self.mean, self.std) != (None, None):
            raise ArgumentError("mean and std with dtype='uint8': normalised values are floats; choose another dtype")
        if isinstance(self.flip, bool) or not isinstance(self.flip, (int, float)) or not 0 <= self.flip <= 1:
            raise ArgumentError(f"flip={self.flip!r}: give a probability within 0 to 1")
        if self.jitter is not None and not isinstance(self.jitter, ColorJitter):
            raise ArgumentError(f"jitter={self.jitter!r}: give a vidload.ColorJitter or None")
        if not isinstance(self.compile, bool):
            raise ArgumentError(f"compile={self.compile!r}: give True or False")

    @property
    def num_uniforms(self) -> int:
        """How many random numbers each clip takes: none, or one for each thing that may be random, wanted or not."""
        return 1 + len(_JITTERS) if self.flip or self._ranges else 0

    @property
    def _ranges(self) -> dict[str, Range]:
        return {} if self.jitter is None else self.jitter.ranges

    def parameters(self, uniforms: npt.NDArray[np.float64]) -> dict[str, torch.Tensor]:
        """What is random in a batch, from numbers in [0, 1).

        Args:
            uniforms: float64[B, num_uniforms], of each clip its own: see `vidload.clips.random.pixel_uniforms`.

        Returns:
            On the CPU, of what is wanted: ``flip`` bool[B]; ``brightness``, ``contrast``, ``saturation`` and ``hue``
            float32[B].

        Raises:
            ArgumentError: If there are more or fewer numbers.
        """
        drawn = np.asarray(uniforms, np.float64)
        if drawn.ndim != 2 or drawn.shape[1] != self.num_uniforms:
            raise ArgumentError(f"uniforms of shape {drawn.shape}: give float64[B, {self.num_uniforms}]")
        found = {"flip": torch.from_numpy(drawn[:, 0] < self.flip)} if self.flip else {}
        for name, (low, high) in self._ranges.items():
            factor = low + (high - low) * drawn[:, 1 + _JITTERS.index(name)]
            found[name] = torch.from_numpy(factor.astype(np.float32))
        return found

    def __call__(self, video: torch.Tensor, parameters: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Transform a batch.

        Args:
            video: uint8[B, 3, T, H, W], RGB; or uint16, of 0 to 65535; or planes, uint8[B, T, H * 3 // 2, W].
            parameters: What `parameters` gives, on the video's device; for planes what
                `vidload.transforms.colour.colour_parameters` gives, too.

        Returns:
            [B, 3, T, H, W] or [B, T, 3, H, W], of `dtype`.

        Raises:
            ArgumentError: If the video has another type or shape, or a parameter is missing.
        """
        planar = video.ndim == 4
        whole = video.dtype in (torch.uint8, torch.uint16) and video.ndim == 5 and video.shape[1] == 3
        if not whole and not (planar and video.dtype == torch.uint8):
            raise ArgumentError(
                f"video of {video.dtype}{list(video.shape)}: give uint8 or uint16[B, 3, T, H, W], or "
                "uint8[B, T, H * 3 // 2, W] for planes"
            )
        wanted = [*(["flip"] if self.flip else []), *self._ranges, *(["matrix", "full_range"] if planar else [])]
        missing = [name for name in wanted if name not in parameters]
        if missing:
            raise ArgumentError(f"parameters {list(parameters)}: {', '.join(missing)} missing")
        known = {name: parameters[name] for name in [*wanted, "siting"] if name in parameters}
        return _compiled(self)(video, known) if self.compile else self._apply(video, known)

    def _apply(self, video: torch.Tensor, parameters: dict[str, torch.Tensor]) -> torch.Tensor:
        flip = parameters.get("flip")
        if video.ndim == 4:
            rgb = yuv420_to_rgb(
                video, parameters["matrix"], parameters["full_range"], parameters.get("siting"), flip=flip, round=False
            )
        else:
            rgb = video.permute(0, 2, 3, 4, 1)
            if rgb.dtype == torch.uint16:
                rgb = rgb.to(torch.float32) / 257  # 0 to 255
            rgb = rgb if flip is None else torch.where(flip.view(-1, 1, 1, 1, 1), rgb.flip(3), rgb)
        if self.dtype == "uint8" and rgb.dtype == torch.uint8 and not self._ranges:
            return self._laid_out(rgb)
        values, unit = rgb.to(torch.float32), 255.0
        if self._ranges:
            values, unit = values / 255, 1.0
        for name in self._ranges:
            values = _CHANGES[name](values, parameters[name].view(-1, 1, 1, 1, 1))
        if self.dtype == "uint8":
            return self._laid_out((values * (255 / unit)).round().to(torch.uint8))
        std, mean = self.std or (1.0, 1.0, 1.0), self.mean or (0.0, 0.0, 0.0)
        scale = _per_channel([1 / (unit * s) for s in std], values.device)
        shift = _per_channel([-m / s for m, s in zip(mean, std, strict=True)], values.device)
        return self._laid_out((values * scale + shift).to(_DTYPES[str(self.dtype)]))

    def _laid_out(self, video: torch.Tensor) -> torch.Tensor:
        """View of B×T×H×W×C."""
        return video.permute(0, 4, 1, 2, 3) if self.layout == "BCTHW" else video.permute(0, 1, 4, 2, 3)


@functools.lru_cache(maxsize=8)
def _compiled(transform: DeviceTransform) -> Callable[[torch.Tensor, dict[str, torch.Tensor]], torch.Tensor]:
    """Kept beside the transform, not in it: it stays picklable, and equal ones share what was compiled."""
    return torch.compile(transform._apply)


def _per_channel(values: list[float], device: torch.device) -> torch.Tensor:
    """float32[3], filled on the device: a copy from the host would wait, and can't be captured."""
    return torch.cat([torch.full((1,), value, dtype=torch.float32, device=device) for value in values])


def _lightness(rgb: torch.Tensor) -> torch.Tensor:
    return rgb[..., 0:1] * _GREY[0] + rgb[..., 1:2] * _GREY[1] + rgb[..., 2:3] * _GREY[2]


def _brightness(rgb: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return (rgb * factor).clamp(0, 1)


def _contrast(rgb: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    mean = _lightness(rgb).mean((2, 3), keepdim=True)
    return (mean + (rgb - mean) * factor).clamp(0, 1)


def _saturation(rgb: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    grey = _lightness(rgb)
    return (grey + (rgb - grey) * factor).clamp(0, 1)


def _hue(rgb: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
    """Turn the hue in HSV (Smith 1978, https://doi.org/10.1145/800248.807361); value and saturation stay."""
    red, green, blue = rgb.unbind(-1)
    value, chroma = rgb.amax(-1), rgb.amax(-1) - rgb.amin(-1)
    divisor = torch.where(chroma > 0, chroma, 1.0)
    sixths = torch.where(
        (red >= green) & (red >= blue),
        (green - blue) / divisor,
        torch.where(green >= blue, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    sixths = sixths + 6 * turn.squeeze(-1)
    parts = []
    for offset in (5.0, 3.0, 1.0):
        # A channel is at its value but for the third of the circle around its opposite, where it falls and rises.
        place = torch.remainder(sixths + offset, 6.0)
        parts.append(value - chroma * torch.minimum(place, 4 - place).clamp(0, 1))
    return torch.stack(parts, -1)


_CHANGES = {"brightness": _brightness, "contrast": _contrast, "saturation": _saturation, "hue": _hue}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _check_range(name: str, given: Any) -> Range:
    low, high = (-0.5, 0.5) if name == "hue" else (0.0, math.inf)
    if _is_number(given) and 0 <= given <= high:
        return (-float(given), float(given)) if name == "hue" else (max(0.0, 1.0 - given), 1.0 + given)
    if isinstance(given, (tuple, list)) and len(given) == 2 and all(map(_is_number, given)):
        first, last = float(given[0]), float(given[1])
        if low <= first <= last <= high:
            return first, last
    allowed = "0 to 0.5, or a pair within -0.5 to 0.5" if name == "hue" else "0 or more, or a pair of such"
    raise ArgumentError(f"{name}={given!r}: give a number, {allowed}, the smaller first")


def _check_channels(name: str, given: Any, good: Callable[[float], bool]) -> tuple[float, float, float] | None:
    if given is None:
        return None
    values = tuple(given) if isinstance(given, (tuple, list)) else ()
    if len(values) != 3 or not all(_is_number(value) and good(value) for value in values):
        allowed = "three numbers above 0" if name == "std" else "three numbers"
        raise ArgumentError(f"{name}={given!r}: give {allowed}, of values in 0 to 1, or None")
    return float(values[0]), float(values[1]), float(values[2])
