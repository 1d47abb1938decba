"""A step as long as loading: what both cost together, over the longer of the two. 1 is perfect overlap.

Rounds of: an epoch without steps (which gives the seconds that loading a batch takes), then an epoch with steps of that
length, which sleep, as a process does that waits for its GPU. The step's length is the one of the loading epoch just
before, since machines get slower and faster.

    python benchmarks/balance.py
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from films import real_films
from rich.table import Table
from side_by_side import CONSOLE, report, track

import vidload

WANTED = 1.03


def seconds_per_batch(loader: vidload.VideoLoader, step: float) -> tuple[float, float]:
    """Seconds a batch over an epoch but for its first two, and what the steps really took."""
    times, slept = [], []
    for _ in loader:
        times.append(time.perf_counter())
        if step:
            time.sleep(step)
            slept.append(time.perf_counter() - times[-1])
    return (times[-1] - times[1]) / (len(times) - 2), statistics.mean(slept) if slept else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/balance"), help="folder of films and results")
    parser.add_argument("--seconds", type=int, default=600, help="length of the films")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--batches", type=int, default=14)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--decoder", default="pyav")
    parser.add_argument("--json", type=Path, help="file for the figures")
    args = parser.parse_args()

    args.out.mkdir(parents=True, exist_ok=True)
    films = real_films(args.out / "films", args.seconds)
    index = args.out / "films.index"
    vidload.build_index(films, index).close()
    clips = vidload.RandomClips(
        num_frames=16, stride=4, clips_per_video=-(-args.batches * args.batch_size // len(films))
    )
    dataset = vidload.ClipDataset(index, clips, 224, args.decoder)
    rounds: list[dict[str, float]] = []
    with vidload.VideoLoader(
        dataset, args.batch_size, num_workers=args.workers, shuffle=True, drop_last=True, prefetch_batches=4
    ) as loader:
        seconds_per_batch(loader, 0.0)  # workers start, files come into the page cache
        for _ in track(range(args.rounds), "balance"):
            loading, _ = seconds_per_batch(loader, 0.0)
            both, step = seconds_per_batch(loader, loading)
            after, _ = seconds_per_batch(loader, 0.0)
            # Loading, as it was before and after.
            longer = max(step, (loading + after) / 2)
            rounds.append({"loading_s": loading, "step_s": step, "both_s": both, "ratio": both / longer})
    ratio = statistics.median(found["ratio"] for found in rounds)
    table = Table(title=f"{args.workers} workers, {args.decoder}, batches of {args.batch_size}")
    for name in ("loading (s)", "step (s)", "both (s)", "over the longer"):
        table.add_column(name, justify="right")
    for found in rounds:
        table.add_row(*(f"{value:.3f}" for value in found.values()))
    CONSOLE.print(table)
    CONSOLE.print(f"median {ratio:.3f}, wanted at most {WANTED}")
    figures: dict[str, Any] = {"median_ratio": ratio, "wanted": WANTED, "rounds": rounds}
    report("balance", figures, args.json)


if __name__ == "__main__":
    main()
