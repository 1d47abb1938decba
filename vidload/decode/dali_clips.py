"""Clips through DALI's operators: files to frames, frames to their place."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from vidload.decode.dali import colour_matrix
from vidload.decode.encoded import EncodedClip, EncodedPart

__all__ = ["DaliClips", "PlacedClips"]


class DaliClips:
    """DALI's operators on one device.

    Args:
        dali: The module ``nvidia.dali.experimental.dynamic``.
        context: Its ``EvalContext``: device, stream and threads; it keeps operators for further calls.
        device: The same device.
    """

    def __init__(self, dali: Any, context: Any, device: torch.device) -> None:
        self._dali = dali
        self._context = context
        self._torch_device = device
        self._device = "cpu" if device.type == "cpu" else f"gpu:{device.index}"
        self._cubic = importlib.import_module("nvidia.dali.types").INTERP_CUBIC
        self._colours: dict[int, torch.Tensor | None] = {}

    def place(self, clips: Sequence[EncodedClip], size: tuple[int, int]) -> PlacedClips:
        """Decode clips together, crop and scale them.

        Returns:
            Their frames, as far as turned as DALI does it.

        Raises:
            RuntimeError: If DALI can't decode one of them, or gives frames of another size.
        """
        files = [(clip, part, *np.unique(part.frames, return_inverse=True)) for clip in clips for part in clip.parts]
        # Synchronous: DALI's operators otherwise run in a thread of theirs, for which this one would wait anyhow.
        with self._context, self._dali.EvalMode.sync_cpu:
            batch = self._decode([part for _, part, _, _ in files], [wanted for _, _, wanted, _ in files])
            _check(batch, [(len(wanted), clip.height, clip.width, 3) for clip, _, wanted, _ in files])
            batch = self._transform(batch, [clip for clip, _, _, _ in files])
            _check(batch, [(len(wanted), *clip.placement.window[:1:-1], 3) for clip, _, wanted, _ in files])
            plain = all(_is_plain(clip) for clip in clips)
            dense = self._dali.as_tensor(batch).torch() if plain else None
            frames = None if plain else [sample.torch() for sample in batch.tensors]
        if dense is not None:
            return PlacedClips(dense, [])
        assert frames is not None
        placed: list[list[_Rows]] = []
        rest = iter(zip(files, frames, strict=True))
        for clip in clips:
            rows = []
            for _ in clip.parts:
                (_, part, _, inverse), shown = next(rest)
                rows.append(_Rows(self._shown(clip, shown), part.rows, inverse))
            placed.append(rows)
        return PlacedClips(None, placed)

    def _decode(self, parts: Sequence[EncodedPart], wanted: Sequence[npt.NDArray[np.int64]]) -> Any:
        """Frames of each file: uint8[n, height, width, 3]; numbers are distinct and in order, so that it never seeks.

        Beyond the end is an error (``pad_mode="none"``); by default that would be black frames.
        """
        dali = self._dali
        encoded = dali.batch([part.data for part in parts], device="cpu")
        frames = dali.batch([numbers.astype(np.int32) for numbers in wanted], device="cpu")
        # DALI's dynamic mode reads from this very source which arguments are constant: they have to stand as literals.
        if self._device == "cpu":
            return dali.decoders.video(encoded, frames=frames, pad_mode="none", device="cpu")
        # Not tied to cores (``affine``): other ranks would be on the same ones.
        return dali.decoders.video(encoded, frames=frames, pad_mode="none", affine=False, device=self._device)

    def _transform(self, batch: Any, clips: Sequence[EncodedClip]) -> Any:
        """Crop, scale, cut the window out, and turn by 0 or 180 degrees and mirror."""
        dali = self._dali
        placements = [clip.placement for clip in clips]
        sizes = [(clip.width, clip.height) for clip in clips]
        if any(place.crop != (0, 0, *size) for place, size in zip(placements, sizes, strict=True)):
            batch = self._slice(batch, [place.crop for place in placements])
        if any(place.crop[2:] != place.scaled for place in placements):
            batch = dali.resize(
                batch,
                size=dali.batch([np.array(place.scaled[::-1], np.float32) for place in placements], device="cpu"),
                interp_type=self._cubic,
                antialias=True,
                device=self._device,
            )
        if any(place.window != (0, 0, *place.scaled) for place in placements):
            batch = self._slice(batch, [place.window for place in placements])
        mirrors = [_mirrors(clip) for clip in clips]
        if any(horizontal or vertical for horizontal, vertical in mirrors):
            batch = dali.flip(
                batch,
                horizontal=dali.batch([np.int32(horizontal) for horizontal, _ in mirrors], device="cpu"),
                vertical=dali.batch([np.int32(vertical) for _, vertical in mirrors], device="cpu"),
                device=self._device,
            )
        return batch

    def _slice(self, batch: Any, rectangles: Sequence[tuple[int, int, int, int]]) -> Any:
        dali = self._dali
        return dali.slice(
            batch,
            dali.batch([np.array(rectangle[1::-1], np.int32) for rectangle in rectangles], device="cpu"),
            dali.batch([np.array(rectangle[:1:-1], np.int32) for rectangle in rectangles], device="cpu"),
            axes=(1, 2),
            device=self._device,
        )

    def _shown(self, clip: EncodedClip, frames: torch.Tensor) -> torch.Tensor:
        """Frames with the colours of their stream's matrix, turned by 90 or 270 degrees where the clip is."""
        if clip.color_space not in self._colours:
            matrix = colour_matrix(clip.color_space)
            self._colours[clip.color_space] = (
                None if matrix is None else torch.from_numpy(matrix.T.copy()).to(self._torch_device)
            )
        colours = self._colours[clip.color_space]
        if colours is not None:
            frames = (frames.float() @ colours).round_().clamp_(0, 255).to(torch.uint8)
        if clip.rotation in (90, 270):
            if clip.mirrored:
                frames = frames.flip(2)
            frames = torch.rot90(frames, -(clip.rotation // 90), (1, 2))
            if clip.placement.flip:
                frames = frames.flip(2)
        return frames


class _Rows:
    """Frames of one file and where they go.

    Args:
        frames: uint8[n, H, W, 3], distinct.
        rows: int64[m], rows of the clip.
        inverse: int64[m], which frame goes there.
    """

    def __init__(self, frames: torch.Tensor, rows: npt.NDArray[np.int64], inverse: npt.NDArray[np.int64]) -> None:
        self._frames = frames
        self._rows = rows.tolist()
        self._inverse = inverse.tolist()

    def write(self, clip: torch.Tensor) -> None:
        """Write them into uint8[T, H, W, 3]."""
        first, count = self._rows[0], len(self._rows)
        if self._rows == list(range(first, first + count)) and self._inverse == list(range(count)):
            clip[first : first + count] = self._frames
            return
        for row, frame in zip(self._rows, self._inverse, strict=True):
            clip[row] = self._frames[frame]


class PlacedClips:
    """Clips that are decoded and placed.

    Attributes:
        dense: uint8[n, T, H, W, 3], DALI's own memory, where clips need nothing more; else None.
    """

    def __init__(self, dense: torch.Tensor | None, clips: Sequence[Sequence[_Rows]]) -> None:
        self.dense = dense
        self._clips = clips

    def write(self, out: torch.Tensor) -> None:
        """Write them into uint8[n, T, H, W, 3]."""
        if self.dense is not None:
            out.copy_(self.dense)
        for target, parts in zip(out, self._clips, strict=bool(self._clips)):
            for part in parts:
                part.write(target)


def _is_plain(clip: EncodedClip) -> bool:
    """Whether what comes out of DALI is the clip."""
    if clip.rotation in (90, 270) or colour_matrix(clip.color_space) is not None:
        return False
    part = clip.parts[0]
    return bool(np.all(np.diff(part.frames) > 0) and np.array_equal(part.rows, np.arange(len(clip.numbers))))


def _mirrors(clip: EncodedClip) -> tuple[bool, bool]:
    """Whether DALI mirrors it left to right, and top to bottom."""
    if clip.rotation in (90, 270):
        return False, False
    turned = clip.rotation == 180
    return clip.mirrored ^ turned ^ clip.placement.flip, turned


def _check(batch: Any, shapes: Sequence[tuple[int, ...]]) -> None:
    came = [tuple(shape) for shape in batch.shape]
    for shape, expected in zip(came, shapes, strict=True):
        if shape != expected:
            raise RuntimeError(f"frames come out as {shape}, not {expected}")
