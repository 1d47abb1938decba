"""What an index of a million videos costs to open and to read, beside one of ten.

Both are made up (30 packets a video) and written the way real ones are. Each is then opened in a process of its own,
once with the file out of the page cache and once with it in. Private memory is what ``/proc/self/smaps_rollup`` calls
Anonymous: pages that no other process shares. The mapped index isn't among them; all processes see the same copy.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from vidload.index.format import FACTS, facts_of, write_index
from vidload.index.reader import VideoIndex
from vidload.index.spool import RowSpool
from vidload.index.video import DISPOSABLE, KEY, Video

FEW = 10
PACKETS = 30
ROWS_READ = 1000
OPENS_WITHIN_S = 0.1
GROWS_BELOW_MB = 20


@dataclass(frozen=True)
class Measured:
    """One index, measured in a process of its own."""

    videos: int
    file_mb: float
    open_cold_s: float
    open_warm_s: float
    row_us: float
    private_mb: float


def made_up_video(random: np.random.Generator) -> Video:
    frames = np.arange(PACKETS)
    return Video(
        path="",
        file_size=int(random.integers(1 << 20, 1 << 30)),
        mtime_ns=int(random.integers(1 << 60)),
        container="mov,mp4,m4a,3gp,3g2,mj2",
        stream_index=0,
        codec="h264",
        codec_tag="avc1",
        pix_fmt="yuv420p",
        width=1280,
        height=720,
        rotation=0,
        mirrored=False,
        sample_aspect_ratio=Fraction(1),
        color_range=1,
        color_space=1,
        color_primaries=1,
        color_trc=1,
        bits_per_coded_sample=24,
        time_base=Fraction(1, 12800),
        fps=25.0,
        constant_fps=True,
        duration=PACKETS / 25,
        offsets_exact=True,
        header=random.bytes(700),
        packet_pts=frames * 512,
        packet_dts=frames * 512 - 1024,
        packet_pos=np.cumsum(random.integers(100, 20_000, PACKETS)),
        packet_size=random.integers(100, 20_000, PACKETS).astype(np.int32),
        packet_flags=np.where(frames == 0, KEY, np.where(frames % 2, DISPOSABLE, 0)).astype(np.uint8),
        frame_packets=frames.astype(np.int32),
    )


def write_made_up_index(out: Path, videos: int) -> None:
    """Write an index of any size, in memory of a few rows and one path per video."""
    random = np.random.default_rng(0)
    rows = facts_of([made_up_video(random) for _ in range(min(videos, 1000))])
    with RowSpool(FACTS, str(out.parent)) as spool:
        for start in range(0, videos, len(rows)):
            spool.append(rows.slice(0, videos - start))
        write_index(
            str(out),
            spool.batch(),
            paths=[f"{out.parent}/films/{row // 1000:06}/{row:09}.mp4" for row in range(videos)],
            labels=[row % 700 for row in range(videos)],
            classes=[f"class {number}" for number in range(700)],
        )


def private_mb() -> float:
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/smaps_rollup has no line 'Anonymous:'")


def drop_from_page_cache(file: str) -> None:
    descriptor = os.open(file, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def timed_open(file: str) -> tuple[VideoIndex, float]:
    start = time.perf_counter()
    index = VideoIndex(file)
    return index, time.perf_counter() - start


def measure_here(file: str) -> Measured:
    """Open and read an index; to be called once in a process."""
    drop_from_page_cache(file)
    index, cold = timed_open(file)
    rows = np.random.default_rng(0).integers(0, len(index), ROWS_READ)
    total = int(index.num_frames.sum())  # a whole column, as a sampler asks for
    assert total == len(index) * PACKETS
    for row in rows:  # bring the rows into the page cache
        total += int(index[row].packet_pos[-1])
    start = time.perf_counter()
    for row in rows:
        total += int(index[row].packet_pos[-1])
    row_us = (time.perf_counter() - start) / len(rows) * 1e6
    private = private_mb()
    index.close()
    index, warm = timed_open(file)
    return Measured(len(index), os.path.getsize(file) / 1e6, cold, warm, row_us, private)


def measure(file: Path) -> Measured:
    done = subprocess.run(
        [sys.executable, __file__, "--measure", str(file)], stdout=subprocess.PIPE, check=True, text=True
    )
    return Measured(**json.loads(done.stdout))


def run(videos: int, folder: Path) -> dict[str, Any]:
    measured = []
    for count in (FEW, videos):
        out = folder / f"{count}.index"
        start = time.perf_counter()
        write_made_up_index(out, count)
        print(f"wrote an index of {count:,} videos in {time.perf_counter() - start:.1f} s", file=sys.stderr)
        measured.append(measure(out))
        out.unlink()
    few, many = measured
    opened = max(many.open_cold_s, many.open_warm_s)
    growth = many.private_mb - few.private_mb
    print(f"{'videos':>10} {'file MB':>9} {'open cold ms':>13} {'open warm ms':>13} {'row us':>8} {'private MB':>11}")
    for one in measured:
        print(
            f"{one.videos:>10,} {one.file_mb:>9,.1f} {one.open_cold_s * 1e3:>13.2f} {one.open_warm_s * 1e3:>13.2f} "
            f"{one.row_us:>8.1f} {one.private_mb:>11.1f}"
        )
    print(f"opens in {opened:.4f} s; promised: under {OPENS_WITHIN_S} s")
    print(f"private memory grows by {growth:.2f} MB from {few.videos:,} videos; promised: under {GROWS_BELOW_MB} MB")
    kept = opened < OPENS_WITHIN_S and growth < GROWS_BELOW_MB
    return {
        "few": asdict(few),
        "many": asdict(many),
        "open_s": {"measured": opened, "promised_below": OPENS_WITHIN_S},
        "private_growth_mb": {"measured": growth, "promised_below": GROWS_BELOW_MB},
        "kept": kept,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, default=1_000_000, help="size of the large index")
    parser.add_argument("--out", type=Path, help="where the indexes lie while they are measured (4 GB); default: /tmp")
    parser.add_argument("--json", type=Path, help="file for the figures; by default they are printed")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(asdict(measure_here(arguments.measure))))
        return
    with tempfile.TemporaryDirectory(dir=arguments.out) as folder:
        result = run(arguments.videos, Path(folder).resolve())
    figures = json.dumps(result, indent=2)
    if arguments.json:
        arguments.json.write_text(figures + "\n")
    else:
        print(figures)
    sys.exit(0 if result["kept"] else 1)


if __name__ == "__main__":
    main()
