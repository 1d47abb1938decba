"""RGB out of planar YUV 4:2:0, on the device: batched, a matrix and range for each clip.

Only torch operations whose shapes follow from the arguments' shapes: nothing waits for the device, so all of it can be
compiled and captured in a CUDA graph. The conversion is that of ITU-R BT.601, BT.709 and BT.2020 (non-constant
luminance): R = Y + 2(1 − Kr)·Cr, B = Y + 2(1 − Kb)·Cb, and G from Y = Kr·R + (1 − Kr − Kb)·G + Kb·B, with Y in 0..1 and
Cb, Cr in ±0.5. Limited range has Y from 16 to 235 and chroma from 16 to 240, full range 0 to 255, zero chroma at 128.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from vidload.errors import ArgumentError
from vidload.transforms.planar import MATRICES, PlaneColour

__all__ = ["colour_parameters", "yuv420_to_rgb"]

_NUMBER = {name: number for number, name in enumerate(MATRICES)}


def colour_parameters(colours: Sequence[PlaneColour]) -> dict[str, torch.Tensor]:
    """What `yuv420_to_rgb` has to know of each clip, on the CPU.

    Args:
        colours: One for each clip of the batch.

    Returns:
        ``matrix`` int64[B], ``full_range`` bool[B] and ``siting`` float32[B, 2].
    """
    return {
        "matrix": torch.tensor([_NUMBER[colour.matrix] for colour in colours], dtype=torch.int64),
        "full_range": torch.tensor([colour.full_range for colour in colours], dtype=torch.bool),
        "siting": torch.tensor([colour.siting for colour in colours], dtype=torch.float32).reshape(-1, 2),
    }


def yuv420_to_rgb(
    planes: torch.Tensor,
    matrix: torch.Tensor,
    full_range: torch.Tensor,
    siting: torch.Tensor | None = None,
    *,
    flip: torch.Tensor | None = None,
    round: bool = True,
) -> torch.Tensor:
    """Convert planes to RGB.

    Chroma is interpolated linearly, in both directions, at each pixel's place; beyond the outermost sample it stays as
    there. Colours outside RGB are clipped to it.

    Args:
        planes: uint8[B, T, H * 3 // 2, W], H and W even; a frame is H * W bytes of Y, then a quarter as many of U, then
            of V.
        matrix: int[B], a number of `vidload.transforms.planar.MATRICES`: 0 BT.601, 1 BT.709, 2 BT.2020, 3 FCC,
            4 SMPTE 240M.
        full_range: bool[B].
        siting: float32[B, 2], (x, y) of the first chroma sample in pixels from the first luma sample, -0.5 to 1.5;
            (0, 0.5) by default: on the left column, between the rows, as in MPEG-2, H.264 and later codecs.
        flip: bool[B], clips to mirror left to right, or None.
        round: Whether to round to whole numbers.

    Returns:
        [B, T, H, W, 3], 0 to 255: uint8 where `round`, else float32.

    Raises:
        ArgumentError: If the planes have another type or shape.
    """
    luma, chroma = _split(planes)
    batch = len(planes)
    across = torch.zeros(batch, device=planes.device) if siting is None else siting[:, 0]
    down = torch.full((batch,), 0.5, device=planes.device) if siting is None else siting[:, 1]
    if flip is not None:
        luma = torch.where(flip.view(-1, 1, 1, 1), luma.flip(-1), luma)
        chroma = torch.where(flip.view(-1, 1, 1, 1, 1), chroma.flip(-1), chroma)
        across = torch.where(flip, 1 - across, across)
    fine = _refine(_refine(chroma.to(torch.float32) - 128, across, 4), down, 3)
    y = (luma.to(torch.float32) - _each(torch.where(full_range, 0.0, 16.0))) * _each(
        torch.where(full_range, 1.0, 255 / 219)
    )
    kr, kb = _coefficients(matrix)
    swing = torch.where(full_range, 2.0, 2 * 255 / 224)
    to_red, to_blue = (1 - kr) * swing, (1 - kb) * swing
    kg = 1 - kr - kb
    u, v = fine.unbind(2)
    red = y + _each(to_red) * v
    green = y - _each(to_blue * kb / kg) * u - _each(to_red * kr / kg) * v
    blue = y + _each(to_blue) * u
    rgb = torch.stack((red, green, blue), -1).clamp_(0, 255)
    return rgb.round_().to(torch.uint8) if round else rgb


def _split(planes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Views uint8[B, T, H, W] of Y and uint8[B, T, 2, H / 2, W / 2] of U and V."""
    if planes.dtype != torch.uint8 or planes.ndim != 4 or planes.shape[2] % 3 or planes.shape[3] % 2:
        raise ArgumentError(
            f"planes of {planes.dtype}{list(planes.shape)}: give uint8[B, T, H * 3 // 2, W] with H and W even"
        )
    batch, frames, rows, width = planes.shape
    height = rows // 3 * 2
    flat = planes.reshape(batch, frames, rows * width)
    luma = flat[:, :, : height * width].reshape(batch, frames, height, width)
    return luma, flat[:, :, height * width :].reshape(batch, frames, 2, height // 2, width // 2)


def _refine(coarse: torch.Tensor, first: torch.Tensor, axis: int) -> torch.Tensor:
    """Twice as many samples along an axis: at -first / 2, (1 - first) / 2, 1 - first / 2, … of the coarse ones."""
    size = coarse.shape[axis]
    before = torch.cat((coarse.narrow(axis, 0, 1), coarse.narrow(axis, 0, size - 1)), axis)
    after = torch.cat((coarse.narrow(axis, 1, size - 1), coarse.narrow(axis, size - 1, 1)), axis)
    parts = []
    for place in (-first / 2, (1 - first) / 2):
        weight = place.view(-1, 1, 1, 1, 1)
        parts.append(coarse * (1 - weight.abs()) + before * (-weight).clamp(min=0) + after * weight.clamp(min=0))
    return torch.stack(parts, axis + 1).flatten(axis, axis + 1)


def _coefficients(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Kr and Kb, float32[B]. Scalars, not a table: a table would have to be copied to the device."""
    (kr, kb), *others = MATRICES.values()
    red = torch.full(matrix.shape, kr, dtype=torch.float32, device=matrix.device)
    blue = torch.full(matrix.shape, kb, dtype=torch.float32, device=matrix.device)
    for number, (kr, kb) in enumerate(others, 1):
        red, blue = torch.where(matrix == number, kr, red), torch.where(matrix == number, kb, blue)
    return red, blue


def _each(values: torch.Tensor) -> torch.Tensor:
    return values.view(-1, 1, 1, 1)
