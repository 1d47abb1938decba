"""What a run is compared by: a hash of all that is in each batch."""

from __future__ import annotations

import hashlib
from typing import Any

from vidload import VideoLoader
from vidload.loader.batch import Batch


def content(batch: Any) -> str:
    """A hash of a batch's pixels and all that comes with them, or of what any other batch looks like when printed."""
    if not isinstance(batch, Batch):
        return repr(batch)
    return _digest(batch, slice(None)) + f" {batch.epoch} {batch.step}"


def clip_contents(batch: Batch) -> list[str]:
    """A hash of each clip of a batch."""
    return [_digest(batch, slice(row, row + 1)) for row in range(len(batch))]


def _digest(batch: Batch, rows: slice) -> str:
    parts = (batch.video, batch.label, batch.pts, batch.video_id, batch.frames, batch.sample)
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(part[rows].contiguous().numpy().tobytes())
    digest.update(repr({name: column[rows] for name, column in batch.extra.items()}).encode())
    return digest.hexdigest()


def rest(loader: VideoLoader, epochs: int) -> list[str]:
    """Contents of all batches that a loader still gives in a run of so many epochs."""
    found = []
    while loader.epoch < epochs:
        found += [content(batch) for batch in loader]
    return found
