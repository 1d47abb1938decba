"""What `demo.py` is compared with: clips by decord, each from its film opened anew, for torch's DataLoader."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import decord
import numpy as np
import torch
from torch.utils.data import Dataset, Sampler, get_worker_info

from vidload import Span


class ClipPlan(NamedTuple):
    """One clip as vidload gave it, to be given once more by decord.

    Attributes:
        path: The film.
        frames: Frame numbers.
        label: Class number.
        scaled: (width, height) in pixels to which the picture is scaled.
        window: (x, y, width, height) of what is then cut out.
        epoch: The epoch it belongs to.
        step: The step of that epoch.
    """

    path: str
    frames: list[int]
    label: int
    scaled: tuple[int, int]
    window: tuple[int, int, int, int]
    epoch: int
    step: int


class Batch(NamedTuple):
    """What the training takes from either loader; spans only where the loader has no trace of its own."""

    video: torch.Tensor
    label: torch.Tensor
    spans: list[Span]


class DecordClips(Dataset):
    """The clips of a plan, each from a film opened with decord."""

    def __init__(self, plan: list[ClipPlan]) -> None:
        self.plan = plan

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, item: int) -> tuple[np.ndarray, int, list[Span]]:
        clip = self.plan[item]
        (width, height), (x, y, w, h) = clip.scaled, clip.window
        start = time.monotonic()
        reader = decord.VideoReader(clip.path, width=width, height=height, num_threads=1)
        opened = time.monotonic()
        video = reader.get_batch(clip.frames).asnumpy()[:, y : y + h, x : x + w]
        worker = get_worker_info().id
        spans = [
            Span("read", worker, clip.epoch, clip.step, start, opened),
            Span("decode", worker, clip.epoch, clip.step, opened, time.monotonic()),
        ]
        return video, clip.label, spans


def collate(samples: list[tuple[np.ndarray, int, list[Span]]]) -> Batch:
    videos, labels, spans = zip(*samples, strict=True)
    video = torch.from_numpy(np.stack(videos)).permute(0, 4, 1, 2, 3)
    return Batch(video, torch.tensor(labels), [span for clip in spans for span in clip])


class InTurn(Sampler):
    """Gives the batches of each epoch in the order of the plan, one epoch per pass."""

    def __init__(self, epochs: list[list[list[int]]]) -> None:
        self.epochs, self.next = epochs, 0

    def __len__(self) -> int:
        return len(self.epochs[0])

    def __iter__(self) -> Iterator[list[int]]:
        # A generator: DataLoader also makes iterators that it never asks for a batch.
        self.next += 1
        yield from self.epochs[self.next - 1]
