"""How vidload's cost grows: with workers, batch size, film length, number of videos, prefetch depth, and ranks.

Each point is measured in a process of its own, in turn, several rounds; medians. The slope is that of a line through
the logarithms: 1 grows as fast as what it is measured against, 0 doesn't grow. It is said in words.

    python benchmarks/scale.py
    python benchmarks/scale.py --sections workers length --rounds 1
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch  # noqa: F401  a training script has it loaded
from index_scale import measure, private_mb, write_made_up_index
from rich.table import Table
from side_by_side import CONSOLE, median, report, run_rounds, write_table

import vidload
from vidload.index.demux import demux_video
from vidload.synthetic import loop_film, write_film

DOCS = Path(__file__).parents[1] / "docs" / "benchmarks.md"

SECTIONS: dict[str, tuple[list[int], str, str, float]] = {
    "workers": ([1, 2, 4, 8], "workers", "clips_per_s", 1.0),
    "batch_size": ([1, 4, 16, 64], "clips of a batch", "clips_per_s", 0.0),
    "length": ([1, 10, 60, 600], "minutes of film", "clip_ms", 0.0),
    "videos": ([10, 1000, 100_000, 1_000_000], "videos in the index", "open_ms", 0.0),
    "prefetch": ([1, 2, 4, 8], "batches ahead", "slots_mb", 1.0),
    "ranks": ([1, 2, 3], "ranks, a worker each", "clips_per_s", 1.0),
}
"""By name: the points, what they are, the figure that the slope is of, and the slope that one would like."""

CLIPS = 64


def film_of(folder: Path, minutes: int) -> Path:
    path = folder / f"{minutes}min.mp4"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        short = folder / "short.mp4"
        if not short.exists():
            write_film(short, 250, width=640, height=360, gop=50, moving=True)
        part = path.with_suffix(".part.mp4")
        loop_film(short, part, minutes * 6)
        part.rename(path)
    return path


def dataset_of(folder: Path, minutes: int = 10, clips: int = CLIPS) -> vidload.ClipDataset:
    index = folder / f"{minutes}.index"
    if not index.exists():
        vidload.build_index([film_of(folder, minutes)], index, num_workers=0).close()
    return vidload.ClipDataset(index, vidload.RandomClips(num_frames=16, stride=4, clips_per_video=clips), 112, "pyav")


def rate(loader: vidload.VideoLoader, batch_size: int) -> float:
    """Clips a second: the slope over an epoch that follows one that starts everything."""
    for _ in loader:
        pass
    times = [time.monotonic() for _ in loader]
    return float(np.polyfit(times, np.arange(len(times)), 1)[0]) * batch_size


def workers(folder: Path, value: int) -> dict[str, float]:
    with vidload.VideoLoader(dataset_of(folder, clips=128), 4, epochs=2, num_workers=value, seed=1) as loader:
        return {"clips_per_s": rate(loader, 4)}


def batch_size(folder: Path, value: int) -> dict[str, float]:
    with vidload.VideoLoader(dataset_of(folder, clips=256), value, epochs=2, num_workers=2, seed=1) as loader:
        return {"clips_per_s": rate(loader, value)}


def length(folder: Path, value: int) -> dict[str, float]:
    start = time.monotonic()
    demux_video(film_of(folder, value))
    indexing = time.monotonic() - start
    dataset = dataset_of(folder, value)
    for sample in range(4):
        dataset[sample]
    times = []
    for sample in range(24):
        begin = time.process_time()
        dataset[sample]
        times.append(time.process_time() - begin)
    return {"clip_ms": statistics.median(times) * 1000, "index_once_s": indexing}


def videos(folder: Path, value: int) -> dict[str, float]:
    path = folder / f"{value}-videos.index"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_made_up_index(path, value)
    found = measure(path)
    return {"open_ms": found.open_warm_s * 1000, "row_us": found.row_us, "private_mb": found.private_mb}


def prefetch(folder: Path, value: int) -> dict[str, float]:
    """With steps of three times what loading takes: waits, and memory of the slots."""
    waits = []
    with vidload.VideoLoader(
        dataset_of(folder), 8, epochs=3, num_workers=2, prefetch_batches=value, shuffle=True
    ) as loader:
        for epoch in range(3):
            asked = time.monotonic()
            for batch in loader:
                waits.append((epoch, time.monotonic() - asked))
                batch.video.max()  # memory counts where it is looked at
                time.sleep(0.3)
                asked = time.monotonic()
        shared = next(line for line in Path("/proc/self/status").read_text().splitlines() if "RssShmem" in line)
    return {
        "slots_mb": int(shared.split()[1]) / 1024,
        "wait_ms": statistics.median(wait for epoch, wait in waits if epoch) * 1000,
    }


def ranks(folder: Path, value: int) -> dict[str, float]:
    """Processes that train together on this machine: all their clips, and the memory that isn't shared."""
    command = [sys.executable, __file__, "--rank-of", str(value), "--out", str(folder.parent)]
    started = [
        subprocess.Popen([*command, "--rank", str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(value)
    ]
    told = [json.loads(process.communicate()[0].splitlines()[-1]) for process in started]
    return {key: sum(rank[key] for rank in told) for key in ("clips_per_s", "private_mb")}


def run_rank(folder: Path, rank: int, world_size: int) -> dict[str, float]:
    with vidload.VideoLoader(
        dataset_of(folder, clips=192), 4, epochs=2, num_workers=1, rank=rank, world_size=world_size
    ) as loader:
        return {"clips_per_s": rate(loader, 4), "private_mb": private_mb()}


MEASURES: dict[str, Callable[[Path, int], dict[str, float]]] = {
    "workers": workers,
    "batch_size": batch_size,
    "length": length,
    "videos": videos,
    "prefetch": prefetch,
    "ranks": ranks,
}


def slope(points: list[int], values: list[float]) -> float:
    return float(np.polyfit(np.log(points), np.log(np.maximum(values, 1e-9)), 1)[0])


def in_words(section: str, points: list[int], values: list[float]) -> str:
    _, what, figure, wanted = SECTIONS[section]
    found, times = slope(points, values), values[-1] / max(values[0], 1e-9)
    growth = f"{figure} is {times:.2f} times as large at {points[-1]:,} {what} as at {points[0]:,}"
    return f"{growth}: slope {found:.2f}, where {wanted:g} would be ideal"


def compare(args: argparse.Namespace) -> None:
    films = args.out / "films"
    results: dict[str, Any] = {}
    for section in args.sections:
        points = SECTIONS[section][0]
        for point in points:  # films and indexes, before anything is timed
            if section == "length":
                dataset_of(films, point)
        dataset_of(films)
        contenders = {str(point): [f"--section={section}", f"--out={args.out}"] for point in points}
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
        for name, figures in run_rounds(__file__, contenders, args.rounds):
            runs[name].append(figures)
        keys = [key for key in runs[str(points[0])][0] if key != "complaints"]
        found = {name: {key: median(run, key) for key in keys} for name, run in runs.items()}
        words = in_words(section, points, [found[str(point)][SECTIONS[section][2]] for point in points])
        results[section] = {"points": found, "words": words}
        show(section, keys, found, words)
        report("scale", {"sections": results}, args.json)
    if args.docs:
        write_table(DOCS, "scale", as_markdown(results))
    if args.plots:
        plot(results, args.out)


def show(section: str, keys: list[str], found: dict[str, Any], words: str) -> None:
    table = Table(title=section)
    for head in (SECTIONS[section][1], *keys):
        table.add_column(head, justify="right")
    for point, figures in found.items():
        table.add_row(f"{int(point):,}", *(f"{figures[key]:.2f}" for key in keys))
    CONSOLE.print(table)
    CONSOLE.print(words)


def as_markdown(results: dict[str, Any]) -> str:
    parts = []
    for section, result in results.items():
        points = result["points"]
        keys = list(next(iter(points.values())))
        parts.append(f"**{SECTIONS[section][1]}**: {result['words']}.\n")
        parts.append(f"| {SECTIONS[section][1]} | {' | '.join(keys)} |\n|{'---|' * (len(keys) + 1)}")
        parts.extend(
            f"| {int(point):,} | {' | '.join(f'{found[key]:.2f}' for key in keys)} |" for point, found in points.items()
        )
        parts.append("")
    return "\n".join(parts)


def plot(results: dict[str, Any], folder: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(4 * len(results), 4), squeeze=False)
    for axis, (section, result) in zip(axes[0], results.items(), strict=True):
        points, key = [int(point) for point in result["points"]], SECTIONS[section][2]
        axis.loglog(points, [found[key] for found in result["points"].values()], "o-")
        axis.set_xlabel(SECTIONS[section][1])
        axis.set_title(key)
    figure.tight_layout()
    figure.savefig(folder / "scale.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/scale"), help="folder of films and results")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/benchmarks.md")
    parser.add_argument("--plots", action="store_true")
    parser.add_argument("--contender", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--section", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rank-of", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    films = args.out / "films"
    if args.rank_of:
        print(json.dumps(run_rank(films, args.rank, args.rank_of)))
    elif args.contender is not None:
        print(json.dumps(MEASURES[args.section](films, args.contender)))
    else:
        os.makedirs(args.out, exist_ok=True)
        compare(args)


if __name__ == "__main__":
    main()
