"""How far vidload is from the least that its clips can cost, and where the rest goes.

The least: libavcodec on nothing but the packets that the clips need, from memory, on all cores, and the conversion of
the wanted frames. vidload's stages come from its own figures, in the same run, in turn: reading, decoding and
converting in workers, and what is left of their time: waiting for work, messages, the slowest clip of a batch. Clips
are those of workload a of `benchmarks/peers.py`.

    python benchmarks/floor.py
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch  # noqa: F401  a training script has it loaded
from contenders.films import make_plan
from contenders.floor import run_floor
from contenders.plan import SIZE, Plan, PlannedClips
from rich.table import Table
from side_by_side import CONSOLE, cpu_seconds, median, report, run_rounds

import vidload

STAGES = ("read", "decode", "convert")


def run_vidload(plan: Plan, decoder: str, workers: int) -> dict[str, Any]:
    before = cpu_seconds()
    clips = PlannedClips(plan)
    dataset = vidload.ClipDataset(plan.index, clips, vidload.Resize(SIZE), decoder)  # type: ignore[arg-type]
    with vidload.VideoLoader(dataset, plan.batch_size, epochs=1, num_workers=workers, sampler=clips.order) as loader:
        times = []
        for _ in loader:
            times.append(time.monotonic())
        stats = loader.stats()
    count = len(plan.clips)
    figures = {f"{kind}_s": stats["stages"][kind]["total"] / count for kind in STAGES}
    wall = plan.batch_size / (float(np.polyfit(np.arange(len(times)), times, 1)[0]) or 1)
    return figures | {
        "clips_per_s": wall,
        "cpu_s_per_clip": (cpu_seconds() - before) / count,
        # Of a worker's time, a clip: what isn't in a stage.
        "other_s": max(0.0, workers / wall - sum(figures.values())),
        "idle": stats["backpressure"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/floor"), help="folder of films and results")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--clips", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    parser.add_argument("--plan", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        plan = Plan.load(args.plan)
        if args.contender == "floor":
            print(json.dumps(run_floor(plan, args.workers)))
        else:
            print(json.dumps(run_vidload(plan, args.contender, args.workers)))
        return
    args.out.mkdir(parents=True, exist_ok=True)
    plan = make_plan("a", args.out / "films", args.clips, args.batch_size, args.minutes, 0)
    path = args.out / "plan.json"
    plan.save(path)
    names = ("floor", "pyav", "decord")
    settings = [f"--plan={path}", f"--workers={args.workers}"]
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for name, figures in run_rounds(__file__, dict.fromkeys(names, settings), args.rounds):
        runs[name].append(figures)
    floor = {key: median(runs["floor"], key) for key in ("clips_per_s", "cpu_s_per_clip", "convert_s_per_clip")}
    table = Table(title="a clip: ms of a worker")
    for head in ("", "clips/s", "share of the floor", *STAGES, "other", "CPU"):
        table.add_column(head, justify="right")
    decode = floor["cpu_s_per_clip"] - floor["convert_s_per_clip"]
    table.add_row(
        "floor",
        f"{floor['clips_per_s']:.2f}",
        "1",
        "",
        *(f"{seconds * 1000:.1f}" for seconds in (decode, floor["convert_s_per_clip"])),
        "",
        f"{floor['cpu_s_per_clip'] * 1000:.1f}",
    )
    shares = {}
    for name in names[1:]:
        found = {key: median(runs[name], key) for key in runs[name][0]}
        shares[name] = found["clips_per_s"] / floor["clips_per_s"]
        cells = [f"{found[f'{kind}_s'] * 1000:.1f}" for kind in (*STAGES, "other")]
        table.add_row(
            name, f"{found['clips_per_s']:.2f}", f"{shares[name]:.2f}", *cells, f"{found['cpu_s_per_clip'] * 1000:.1f}"
        )
    CONSOLE.print(table)
    report("floor", {"floor": floor, "share_of_floor": shares, "runs": runs}, args.json)


if __name__ == "__main__":
    main()
