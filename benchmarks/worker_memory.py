"""Private memory of a loader's workers, for an index of a million videos beside one of ten.

Every video of both indexes is the same short film under its own row, so that the workers really decode clips from all
over the index. Memory is read while the loader runs, after many batches: what ``/proc/PID/smaps_rollup`` calls
Anonymous, the pages that no other process shares; the mapped index is shared by all.

    python benchmarks/worker_memory.py
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from rich.table import Table
from side_by_side import CONSOLE, median, report, run_rounds

import vidload
from vidload.index.demux import demux_video
from vidload.index.format import FACTS, facts_of, write_index
from vidload.index.spool import RowSpool
from vidload.synthetic import write_film

FEW = 10
GROWS_BELOW_MB = 20
ROWS_AT_ONCE = 1000


def write_repeated_index(out: Path, film: Path, videos: int) -> None:
    """Write an index whose every row is the same film."""
    rows = facts_of([demux_video(str(film))] * min(videos, ROWS_AT_ONCE))
    with RowSpool(FACTS, str(out.parent)) as spool:
        for start in range(0, videos, len(rows)):
            spool.append(rows.slice(0, videos - start))
        write_index(str(out), spool.batch(), paths=[str(film)] * videos, labels=[-1] * videos)


def descendants(pid: int) -> list[int]:
    """Processes that a process started, and those that these started."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def anonymous_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/{pid}/smaps_rollup has no line 'Anonymous:'")


def run_one(args: argparse.Namespace) -> dict[str, Any]:
    clips = vidload.RandomClips(num_frames=4, stride=1)
    dataset = vidload.ClipDataset(args.index, clips=clips, size=64)
    with vidload.VideoLoader(dataset, 8, num_workers=args.workers, shuffle=True, seed=0) as loader:
        videos, taken = set(), 0
        while taken < args.batches:
            for batch in loader:
                videos.update(batch.video_id.tolist())
                taken += 1
                if taken == args.batches:
                    break
        workers = [anonymous_mb(pid) for pid in descendants(os.getpid())]
    if len(workers) != args.workers:
        raise SystemExit(f"{len(workers)} processes were found, not {args.workers} workers")
    return {"worker_mb": sum(workers) / len(workers), "largest_worker_mb": max(workers), "videos_seen": len(videos)}


def compare(args: argparse.Namespace) -> int:
    folder = (args.out / "worker_memory").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    film = write_film(folder / "film.mp4", 10, width=128, height=64, gop=5)
    indexes = {f"{count} videos": folder / f"{count}.index" for count in (FEW, args.videos)}
    for count, index in zip((FEW, args.videos), indexes.values(), strict=True):
        write_repeated_index(index, film, count)
    common = [f"--workers={args.workers}", f"--batches={args.batches}"]
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in indexes}
    for name, figures in run_rounds(
        __file__, {name: [*common, f"--index={index}"] for name, index in indexes.items()}, args.rounds
    ):
        runs[name].append(figures)
    for index in indexes.values():
        index.unlink()

    medians = {name: {key: median(of, key) for key in of[0]} for name, of in runs.items()}
    few, many = medians.values()
    growth = many["worker_mb"] - few["worker_mb"]
    table = Table(title=f"private memory of a worker after {args.batches} batches")
    for column in ("index", "mean (MB)", "largest (MB)", "videos seen"):
        table.add_column(column, justify="left" if column == "index" else "right")
    for name, figures in medians.items():
        table.add_row(
            name, f"{figures['worker_mb']:.1f}", f"{figures['largest_worker_mb']:.1f}", f"{figures['videos_seen']:.0f}"
        )
    CONSOLE.print(table)
    CONSOLE.print(f"It grows by {growth:.1f} MB (promised: under {GROWS_BELOW_MB} MB).")
    promise = {"measured": growth, "promised_below": GROWS_BELOW_MB}
    report("worker_memory", {"medians": medians, "growth_mb": promise}, args.json)
    return int(growth >= GROWS_BELOW_MB)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--videos", type=int, default=1_000_000, help="size of the large index")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    for name in ("--contender", "--index"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        print(json.dumps(run_one(args)))
        return 0
    return compare(args)


if __name__ == "__main__":
    sys.exit(main())
