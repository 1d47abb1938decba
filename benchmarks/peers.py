"""The same clips through vidload and through what people would use instead; and the least that they can cost.

Films are synthetic, with a number in each frame, and every clip's frames are read by their numbers, so nobody wins with
wrong ones. Each contender runs in a process of its own, in turn, several rounds; figures are medians, ratios are of
medians of the same run. The page cache is warm for all. See docs/benchmarks.md.

    python benchmarks/peers.py                          # all workloads
    python benchmarks/peers.py --workloads a --rounds 2 --clips 16
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contenders.films import WORKLOADS, make_plan
from contenders.floor import run_floor
from contenders.loaders import CONTENDERS, applies
from contenders.plan import Plan
from rich.table import Table
from side_by_side import CONSOLE, cpu_seconds, median, read_table, report, run_rounds, write_table

from vidload.synthetic import read_number

FLOOR = "floor"
OURS = "vidload-pyav"
DOCS = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def run_one(args: argparse.Namespace) -> dict[str, Any]:
    plan = Plan.load(args.plan)
    if args.contender == FLOOR:
        return run_floor(plan, args.workers)
    before, start = cpu_seconds(), time.monotonic()
    times, kept = [], []
    batches = CONTENDERS[args.contender](plan, args.workers)
    for batch in batches:
        times.append(time.monotonic())
        kept.append(batch[:, [0, -1]].clone())
    del batches  # workers end, and their processor time is known
    cpu = cpu_seconds() - before
    return {
        "first_batch_s": times[0] - start,
        "clips_per_s": len(plan.clips) / (times[-1] - start),
        # The slope over all batches: what a long run sees, whether they come one by one or a batch of each worker.
        "steady_clips_per_s": float(np.polyfit(times, np.arange(len(times)), 1)[0]) * plan.batch_size,
        "cpu_s_per_clip": cpu / len(plan.clips),
        "wrong_clips": count_wrong(plan, torch.cat(kept)),
    }


def count_wrong(plan: Plan, ends: torch.Tensor) -> int:
    """Clips whose first or last frame has another number than was asked for."""
    wrong = 0
    for clip, pictures in zip(plan.clips, ends.numpy(), strict=True):
        wanted = [clip.frames[0] % plan.period, clip.frames[-1] % plan.period]
        wrong += [read_number(picture, aspect=16 / 9) for picture in pictures] != wanted
    return wrong


def compare(args: argparse.Namespace) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    for workload in args.workloads:
        clips = max(4 * args.batch_size, args.clips // 3) if workload == "c" else args.clips
        plan = make_plan(workload, args.out / "films", clips, args.batch_size, args.minutes, args.seed)
        path = args.out / f"{workload}.plan.json"
        plan.save(path)
        names = [name for name in args.contenders or CONTENDERS if name == OURS or applies(name, workload)]
        settings = [f"--plan={path}", f"--workers={args.workers}"]
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in [*names, FLOOR]}
        for name, figures in run_rounds(__file__, dict.fromkeys([*names, FLOOR], settings), args.rounds):
            runs[name].append(figures)
        results[workload] = {
            name: {key: median(found, key) for key in found[0]} | {"rounds": found} for name, found in runs.items()
        }
        show(workload, results[workload])
        report("peers", {"workers": args.workers, "workloads": results}, args.json)
    if args.docs:
        write_docs(results)
    if args.plots:
        plot(results, args.out)


def rows(found: dict[str, Any]) -> list[list[str]]:
    ours, floor = found[OURS], found[FLOOR]
    lines = []
    for name, figures in found.items():
        if name == FLOOR:
            continue
        lines.append(
            [
                name,
                f"{figures['steady_clips_per_s']:.1f}",
                f"{ours['steady_clips_per_s'] / figures['steady_clips_per_s']:.2f}",
                f"{figures['steady_clips_per_s'] / floor['clips_per_s']:.2f}",
                f"{figures['first_batch_s']:.2f}",
                f"{figures['cpu_s_per_clip'] * 1000:.0f}",
                f"{figures['wrong_clips']:.0f}",
            ]
        )
    lines.append([FLOOR, f"{floor['clips_per_s']:.1f}", "", "1", "", f"{floor['cpu_s_per_clip'] * 1000:.0f}", ""])
    return lines


HEADS = (
    "",
    "clips/s",
    "vidload-pyav is faster by",
    "share of the floor",
    "first batch (s)",
    "CPU ms a clip",
    "wrong clips",
)


def show(workload: str, found: dict[str, Any]) -> None:
    table = Table(title=f"{workload}: {WORKLOADS[workload]}")
    for head in HEADS:
        table.add_column(head, justify="right")
    for line in rows(found):
        table.add_row(*line)
    CONSOLE.print(table)


def as_markdown(workload: str, found: dict[str, Any]) -> str:
    lines = [f"### {workload}: {WORKLOADS[workload]}\n", f"| {' | '.join(HEADS)} |", f"|{'---|' * len(HEADS)}"]
    return "\n".join([*lines, *(f"| {' | '.join(line)} |" for line in rows(found))])


def write_docs(results: dict[str, Any]) -> None:
    """Write the tables of these workloads; those of others stay."""
    sections = {part[0]: f"### {part.strip()}" for part in read_table(DOCS, "peers").split("### ")[1:]}
    sections |= {workload: as_markdown(workload, found) for workload, found in results.items()}
    write_table(DOCS, "peers", "\n\n".join(sections[workload] for workload in sorted(sections)))


def plot(results: dict[str, Any], folder: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(results), figsize=(4 * len(results), 4), squeeze=False)
    for axis, (workload, found) in zip(axes[0], results.items(), strict=True):
        names = [name for name in found if name != FLOOR]
        axis.barh(names, [found[name]["steady_clips_per_s"] for name in names])
        axis.axvline(found[FLOOR]["clips_per_s"], color="black", linestyle="--")
        axis.set_title(f"{workload}: clips/s")
    figure.tight_layout()
    figure.savefig(folder / "peers.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/peers"), help="folder of films and results")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clips", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=10, help="length of long films")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/benchmarks.md")
    parser.add_argument("--plots", action="store_true")
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    parser.add_argument("--plan", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.clips < 3 * args.batch_size:
        parser.error("--clips: at least three batches, as the first one isn't counted")
    if args.contender:
        print(json.dumps(run_one(args)))
        sys.stdout.flush()
    else:
        compare(args)


if __name__ == "__main__":
    main()
