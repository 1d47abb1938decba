"""The other side of the comparison: a data set that opens each film with decord, as is commonly done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import decord
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

import vidload

Plan = list[list[list[tuple[int, list[int]]]]]
"""Per epoch, per step, per clip: video id and frame numbers."""


class DecordClips(Dataset):
    """Clips at stated frames: the short side scaled, then the centre cut out."""

    def __init__(self, index: str, clips: Sequence[tuple[int, list[int]]], size: int) -> None:
        self.clips = clips
        with vidload.VideoIndex(index) as videos:
            self.paths = [video.path for video in videos]
            # decord scales while it decodes where it is told the size; that is its fastest way.
            self.places = [vidload.CenterCrop(size).plan(*video.display_size, lambda: 0.0) for video in videos]

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, item: int) -> torch.Tensor:
        video, frames = self.clips[item]
        (width, height), (x, y, w, h) = self.places[video].scaled, self.places[video].window
        reader = decord.VideoReader(self.paths[video], width=width, height=height, num_threads=1)
        pictures: np.ndarray = reader.get_batch(frames).asnumpy()[:, y : y + h, x : x + w]
        return torch.from_numpy(pictures)


class Batches(Sampler):
    """Gives each epoch's batches in the order of the plan, one epoch per pass."""

    def __init__(self, plan: Plan) -> None:
        ends = np.cumsum([len(clips) for steps in plan for clips in steps]).tolist()
        starts = iter(zip([0, *ends], ends, strict=False))
        self.epochs = [[list(range(*next(starts))) for _ in steps] for steps in plan]
        self.next = 0

    def __len__(self) -> int:
        return len(self.epochs[0])

    def __iter__(self) -> Iterator[list[int]]:
        # A generator: DataLoader also makes iterators that it never asks for a batch.
        self.next += 1
        yield from self.epochs[self.next - 1]


def decord_loader(index: str, plan: Plan, size: int, workers: int) -> DataLoader:
    """DataLoader of uint8[B, T, H, W, 3] over a plan."""
    dataset = DecordClips(index, [clip for steps in plan for clips in steps for clip in clips], size)
    return DataLoader(dataset, batch_sampler=Batches(plan), num_workers=workers, persistent_workers=True)
