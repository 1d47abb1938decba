"""Batches of clips that workers only read: a backend decodes them together, on the device."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from vidload.dataset import ClipDataset, ClipFacts
from vidload.decode.encoded import DeviceDecoder, EncodedClip
from vidload.errors import VidloadError
from vidload.loader.assembly import Bool, RowsError, locate
from vidload.loader.batch import make_batch
from vidload.loader.messages import ReadTask, Task
from vidload.loader.parcel import ROW_BYTES, Parcel, open_copied
from vidload.loader.pixels import ClipPixels
from vidload.loader.ring import Ring, Slot
from vidload.loader.span import Span
from vidload.loader.stats import Stats

__all__ = ["DeviceClipAssembly"]

_logger = logging.getLogger("vidload")


class DeviceClipAssembly:
    """Slices come from workers, and are decoded when a batch has all of its own.

    A clip that the device fails on is decoded by a worker's CPU backend, if that is allowed, before it is an error.

    Args:
        dataset: The clips, all of one shape.
        seed: The loader's.
        decoder: Decodes; closed here. Called once, where batches are made.
        device: Where it puts frames.
        pixels: Makes what the user gets of them, later; None where it is that already.
        packed: Whether what workers read lies packed in a slot, as that of processes does.
        stats: Told of the time that decoding takes, and of clips that the CPU decodes.
    """

    # The one it is at, and the next, so that it never waits for the scheduler.
    tasks_per_worker = 2

    def __init__(
        self,
        dataset: ClipDataset,
        seed: int,
        decoder: Callable[[], DeviceDecoder],
        device: torch.device,
        *,
        pixels: ClipPixels | None,
        packed: bool,
        stats: Stats,
    ) -> None:
        shape = dataset.clip_shape
        assert shape is not None
        self._dataset = dataset
        self._shape = shape
        self._seed = seed
        self._make_decoder = decoder
        self._decoder: DeviceDecoder | None = None
        self._device = device
        self._pixels = pixels
        self._stats = stats
        self._told = False
        self._on_cpu: set[tuple[int, int, int]] = set()  # (epoch, step, row) of clips that the device failed on
        self.row_bytes = ROW_BYTES if packed else 0

    def task(self, number: int, epoch: int, step: int, sample: Any, slot: int, row: int) -> Task:
        """Read a clip's slice."""
        video, clip = locate(self._dataset, sample, epoch)
        on_cpu = (epoch, step, row) in self._on_cpu
        self._on_cpu.discard((epoch, step, row))
        return ReadTask(number, epoch, step, sample, slot, row, video, clip, self._seed, self._device.type, on_cpu)

    def collate(self, number: int, epoch: int, step: int, slot: int, results: list[Any]) -> Task | None:
        """None: `finish` does it."""
        return None

    def finish(
        self,
        epoch: int,
        step: int,
        samples: list[Any],
        repeated: Bool | None,
        results: list[Any],
        ring: Ring | None,
        slot: Slot | None,
    ) -> Any:
        """A `Batch` whose video is on the device."""
        for row, result in enumerate(results):
            if isinstance(result, Parcel):
                assert slot is not None
                results[row] = open_copied(result, slot.file)
        video = self._decode(epoch, step, results)
        if ring is not None and slot is not None:
            ring.release(slot)
        facts = [fact for fact, _ in results]
        for fact in facts:
            self._stats.count_work(fact.times.work)
        self._count_fallbacks(facts)
        batch = make_batch(video, facts, samples, repeated, epoch, step)
        return batch if self._pixels is None else self._pixels.prepare(batch, facts, samples)

    def _count_fallbacks(self, facts: list[ClipFacts]) -> None:
        replaced = [fact for fact in facts if fact.fallback is not None]
        self._stats.count("fallbacks", len(replaced))
        if replaced and not self._told:
            self._told = True
            path = self._dataset.index[replaced[0].video_id].path
            _logger.warning(
                "%s: decoder %s can't decode it on %s: %s; PyAV decodes such clips, counted in stats()['fallbacks']",
                path,
                self._dataset.decoder,
                self._device,
                replaced[0].fallback,
            )

    def _decode(self, epoch: int, step: int, results: list[tuple[ClipFacts, Any]]) -> torch.Tensor:
        """uint8[B, T, H, W, 3] of all clips; those that came out right are kept in `results` where others didn't.

        Raises:
            RowsError: If some didn't.
        """
        rows = [row for row, (_, clip) in enumerate(results) if isinstance(clip, EncodedClip)]
        if rows:
            start = time.monotonic()
            if self._decoder is None:
                self._decoder = self._make_decoder()
            decoded = self._decoder.decode([results[row][1] for row in rows], self._shape[1:3])
            self._stats.observe(Span("decode", -1, epoch, step, start, time.monotonic()))
            if len(rows) == len(results) and not decoded.errors:
                return decoded.video
            right = [row for place, row in enumerate(rows) if place not in decoded.errors]
            for row, frames in zip(right, decoded.video, strict=True):
                results[row] = (results[row][0], frames)
            if decoded.errors:
                errors: dict[int, VidloadError] = {rows[place]: error for place, error in decoded.errors.items()}
                again = errors.keys() if self._dataset.fallback else ()
                self._on_cpu |= {(epoch, step, row) for row in again}
                raise RowsError(errors, frozenset(again))
        video = torch.empty((len(results), *self._shape), dtype=torch.uint8, device=self._device)
        for row, (_, frames) in enumerate(results):
            video[row] = torch.from_numpy(frames) if isinstance(frames, np.ndarray) else frames
        return video

    def close(self) -> None:
        """Close the decoder."""
        decoder, self._decoder = self._decoder, None
        if decoder is not None:
            decoder.close()
