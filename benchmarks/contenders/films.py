"""The workloads: films and clips."""

from __future__ import annotations

import random
from pathlib import Path

import vidload
from contenders.plan import Clip, Plan
from vidload.synthetic import loop_film, write_film

__all__ = ["WORKLOADS", "make_plan"]

WORKLOADS = {
    "a": "random clips of 16 frames at stride 4, long films, GOP 250",
    "b": "clips of 8 frames at stride 2, many films of 10 seconds, GOP 250",
    "c": "64 frames spread over a film of 10 minutes, 640 x 360, GOP 100",
    "d": "four clips of 16 frames at stride 4 of each film",
    "e": "as a, with a GOP of 12",
    "f": "as a, VP9 at 640 x 360, GOP 100",
}

_WIDTH, _HEIGHT = 1280, 720
_PERIOD = 500


def make_plan(workload: str, folder: Path, clips: int, batch_size: int, minutes: float, seed: int) -> Plan:
    """Write films that aren't there yet, and choose clips.

    Args:
        workload: One of `WORKLOADS`.
        folder: For films and indexes.
        clips: How many clips; rounded up to whole batches.
        batch_size: Clips of a batch.
        minutes: Length of long films.
        seed: Chooses clips.
    """
    draw = random.Random(seed)
    count = -(-clips // batch_size) * batch_size
    films, period = _films(workload, folder, minutes)
    index = folder / f"{workload}.index"
    with vidload.build_index(films, index, num_workers=0) as found:
        lengths = [video.num_frames for video in found]
    chosen = []
    for number in range(count):
        # All clips of a film after another in "d", any film for each clip elsewhere.
        film = number // 4 % len(films) if workload == "d" else draw.randrange(len(films))
        if workload == "c":
            frames = [int((place + 0.5) * lengths[film] / 64) for place in range(64)]
            shift = draw.randint(0, lengths[film] // 128)
            frames = [frame - shift for frame in frames]
        else:
            num, stride = (8, 2) if workload == "b" else (16, 4)
            start = draw.randint(0, lengths[film] - 1 - (num - 1) * stride)
            frames = [start + at * stride for at in range(num)]
        chosen.append(Clip(film, frames))
    return Plan([str(film) for film in films], str(index), chosen, batch_size, period)


def _films(workload: str, folder: Path, minutes: float) -> tuple[list[Path], int]:
    folder.mkdir(parents=True, exist_ok=True)
    if workload == "b":
        return [_film(folder / f"b{n}.mp4", 250, 250, look=n) for n in range(16)], 250
    if workload == "c":
        short = _film(folder / "c.short.mp4", 200, 100, width=640, height=360)
        return [_long(short, folder / "c.mp4", minutes, 200)], 200
    if workload == "f":
        short = _film(folder / "f.short.mp4", 200, 100, codec="libvpx-vp9", width=640, height=360)
        return [_long(short, folder / "f.mp4", minutes, 200)], 200
    gop = 12 if workload == "e" else 250
    shorts = [_film(folder / f"{gop}-{n}.short.mp4", _PERIOD, gop, look=n) for n in range(2)]
    return [_long(short, folder / f"{gop}-{n}.mp4", minutes, _PERIOD) for n, short in enumerate(shorts)], _PERIOD


def _film(
    path: Path,
    frames: int,
    gop: int,
    *,
    look: int = 0,
    codec: str = "libx264",
    width: int = _WIDTH,
    height: int = _HEIGHT,
) -> Path:
    if not path.exists():
        part = path.with_suffix(".part.mp4")
        write_film(part, frames, width=width, height=height, codec=codec, gop=gop, moving=True, look=look)
        part.rename(path)
    return path


def _long(short: Path, path: Path, minutes: float, frames: int) -> Path:
    long = path.with_name(f"{path.stem}-{minutes:g}min.mp4")
    if not long.exists():
        part = long.with_suffix(".part.mp4")
        loop_film(short, part, max(1, round(minutes * 60 * 25 / frames)))
        part.rename(long)
    return long
