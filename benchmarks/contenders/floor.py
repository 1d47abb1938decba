"""The least that clips cost: libavcodec on the packets they need, and the conversion of their frames. Nothing else.

No reading, no messages, no batches: packets lie in memory. Each of so many processes takes its share of the clips, as
all cores are to be used. vidload's slices say which packets; its filter graph converts.
"""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import numpy as np

import vidload
from contenders.plan import SIZE, Clip, Plan

__all__ = ["run_floor"]


def run_floor(plan: Plan, workers: int) -> dict[str, float]:
    """Seconds of decoding and of converting a clip, and clips a second on so many processes."""
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        shares = [(plan, plan.clips[at::workers]) for at in range(workers)]
        found = pool.starmap(_share, shares, chunksize=1)
    clips = len(plan.clips)
    return {
        "clips_per_s": clips / max(share["wall"] for share in found),
        "cpu_s_per_clip": sum(share["cpu"] for share in found) / clips,
        "convert_s_per_clip": sum(share["convert"] for share in found) / clips,
        "packets_per_clip": sum(share["packets"] for share in found) / clips,
    }


def _share(plan: Plan, clips: list[Clip]) -> dict[str, Any]:
    from vidload.decode.pyav import PyAVDecoder
    from vidload.decode.source import read_slice
    from vidload.transforms.geometry import make_geometry

    decoder = PyAVDecoder()
    with vidload.VideoIndex(plan.index) as index:
        pieces = [read_slice(index[clip.video], clip.frames) for clip in clips]
        placements = [make_geometry(vidload.Resize(SIZE)).plan(*p.video.display_size, lambda: 0.5) for p in pieces]
        out = np.empty((len(clips[0].frames), SIZE, SIZE, 3), np.uint8)
        decoder.decode(pieces[0], placements[0], out)  # opens the codec
        wall, cpu, converted = time.monotonic(), time.process_time(), decoder.convert_seconds
        for piece, placement in zip(pieces, placements, strict=True):
            decoder.decode(piece, placement, out)
        return {
            "wall": time.monotonic() - wall,
            "cpu": time.process_time() - cpu,
            "convert": decoder.convert_seconds - converted,
            "packets": sum(piece.plan.num_packets for piece in pieces),
        }
