"""From the bytes that clips travel in to the pixels a user gets, on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from vidload.clips.random import pixel_uniforms
from vidload.dataset import ClipFacts
from vidload.loader.batch import Batch
from vidload.transforms.colour import colour_parameters
from vidload.transforms.pixels import DeviceTransform

__all__ = ["ClipPixels", "RawBatch"]


@dataclass(frozen=True, slots=True)
class RawBatch:
    """A batch whose pixels aren't the user's yet: as it is copied to the device.

    Attributes:
        batch: Its `video` is uint8[B, 3, T, H, W], or planes: uint8[B, T, H * 3 // 2, W].
        parameters: What is to be done with each clip: see `vidload.DeviceTransform`.
    """

    batch: Batch
    parameters: dict[str, torch.Tensor]


class ClipPixels:
    """What is done with the pixels of clips on the device.

    Args:
        transform: Makes what the user gets; None for uint8 RGB as it is, or out of planes.
        then: Called with the batch afterwards, or None.
        seed: The loader's.
    """

    def __init__(self, transform: DeviceTransform | None, then: Callable[[Any], Any] | None, seed: int) -> None:
        self._transform = transform or DeviceTransform(dtype="uint8")
        self._then = then
        self._seed = seed

    def prepare(self, batch: Batch, facts: Sequence[ClipFacts], samples: Sequence[int]) -> RawBatch:
        """Draw what is random, on the CPU."""
        uniforms = pixel_uniforms(self._seed, batch.epoch, samples, self._transform.num_uniforms)
        parameters = self._transform.parameters(uniforms)
        colours = [fact.colour for fact in facts if fact.colour is not None]
        return RawBatch(batch, parameters | (colour_parameters(colours) if colours else {}))

    def __call__(self, raw: RawBatch) -> Any:
        """The batch that the user gets."""
        batch = replace(raw.batch, video=self._transform(raw.batch.video, raw.parameters))
        return batch if self._then is None else self._then(batch)
