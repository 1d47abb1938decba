"""What rewriting gains: bytes, and the time of clips."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vidload.decode.backends import Backends
from vidload.index.demux import demux_video
from vidload.index.video import Video
from vidload.transforms.geometry import make_geometry

__all__ = ["Gain", "measure_gain"]

_FRAMES, _STRIDE, _SIZE = 16, 4, 224
_FILMS, _CLIPS = 6, 4


@dataclass(frozen=True)
class Gain:
    """Before and after: bytes of all films, and CPU seconds of a clip of 16 frames at stride 4, 224 × 224.

    `speedup` is the median of the films' ratios; nan where no film is long enough for a clip.
    """

    bytes_before: int
    bytes_after: int
    seconds_before: float
    seconds_after: float
    speedup: float


def measure_gain(pairs: Mapping[Path, Path], seed: int = 0) -> Gain:
    """Decode the same clips of some films and of what they became, in turn.

    Args:
        pairs: Films by source.
        seed: Chooses films and clips.
    """
    draw = random.Random(seed)
    backends = Backends("pyav")
    before, after, ratios = [], [], []
    for source in draw.sample(sorted(pairs), min(_FILMS, len(pairs))):
        films = demux_video(source), demux_video(pairs[source])
        last = films[0].num_frames - 1 - (_FRAMES - 1) * _STRIDE
        if last < 0:
            continue
        clips = [np.arange(_FRAMES) * _STRIDE + draw.randint(0, last) for _ in range(_CLIPS)]
        for film in films:
            _decode(backends, film, clips[0])  # opens the codec, and the page cache
        times = [[_decode(backends, film, clip) for film in films] for clip in clips]
        found = [statistics.median(pair[side] for pair in times) for side in range(2)]
        before.append(found[0])
        after.append(found[1])
        ratios.append(found[0] / max(found[1], 1e-6))
    return Gain(
        sum(source.stat().st_size for source in pairs),
        sum(target.stat().st_size for target in pairs.values()),
        statistics.mean(before) if before else float("nan"),
        statistics.mean(after) if after else float("nan"),
        statistics.median(ratios) if ratios else float("nan"),
    )


def _decode(backends: Backends, film: Video, frames: np.ndarray) -> float:
    placement = make_geometry(_SIZE).plan(*film.display_size, lambda: 0.5)
    out = np.empty((_FRAMES, _SIZE, _SIZE, 3), np.uint8)
    start = time.process_time()
    backends.decode(film, frames, placement, out)
    return time.process_time() - start
