"""What a loader yields for a clip data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from vidload.dataset import ClipFacts

__all__ = ["Batch", "make_batch"]


@dataclass(frozen=True, slots=True)
class Batch:
    """Clips that belong together; yours to keep.

    Attributes:
        video: uint8[B, C, T, H, W], or uint16 if the data set was told so, RGB. Its memory is B×T×H×W×C, torch's
            ``channels_last_3d``, which `.float()` and convolutions keep.
        label: int64[B], class numbers, -1 where the index has none.
        pts: float64[B, T], presentation times in seconds.
        video_id: int64[B], rows of the index.
        frames: int64[B, T], frame numbers in each video.
        sample: int64[B], numbers of the samples in the data set. Where one couldn't be loaded and was replaced, the
            number of the other.
        repeated: bool[B], whether a clip is there only to make the ranks' batches equally large: an evaluation leaves
            it out.
        extra: The further columns of the index: a tensor for each column of numbers, a list for any other.
        epoch: The epoch, from 0.
        step: The batch within the epoch, from 0.
    """

    video: torch.Tensor
    label: torch.Tensor
    pts: torch.Tensor
    video_id: torch.Tensor
    frames: torch.Tensor
    sample: torch.Tensor
    repeated: torch.Tensor
    extra: dict[str, torch.Tensor | list[Any]]
    epoch: int
    step: int

    def __len__(self) -> int:
        return len(self.video)


def make_batch(
    video: torch.Tensor,
    facts: list[ClipFacts],
    samples: list[int],
    repeated: npt.NDArray[np.bool_] | None,
    epoch: int,
    step: int,
) -> Batch:
    """A batch of clips that lie in uint8[B, T, H, W, 3], or [..., 6] for 16 bits, or in planes, which it keeps."""
    if video.ndim == 5 and video.shape[-1] == 6:
        video = video.view(torch.uint16)
    return Batch(
        video=video.permute(0, 4, 1, 2, 3) if video.ndim == 5 else video,
        label=torch.tensor([fact.label for fact in facts], dtype=torch.int64),
        pts=torch.from_numpy(np.stack([fact.pts for fact in facts])),
        video_id=torch.tensor([fact.video_id for fact in facts], dtype=torch.int64),
        frames=torch.from_numpy(np.stack([fact.frames for fact in facts])),
        sample=torch.tensor(samples, dtype=torch.int64),
        repeated=torch.zeros(len(samples), dtype=torch.bool) if repeated is None else torch.from_numpy(repeated),
        extra={name: _column([fact.extra[name] for fact in facts]) for name in facts[0].extra},
        epoch=epoch,
        step=step,
    )


def _column(values: list[Any]) -> torch.Tensor | list[Any]:
    if all(type(value) in (int, float, bool) for value in values):
        try:
            return torch.tensor(values)
        except (RuntimeError, OverflowError):  # an integer beyond int64
            return values
    return values
