"""What the training waits for at an epoch's start, with a step that takes longer than loading does.

The wait before the first batch of every epoch after the first, against the median wait of all batches, for vidload and
for DataLoader(persistent_workers=True) with decord on the same clips. The step sleeps, as a step on a GPU leaves the
processor free; how long, is measured before: some more than DataLoader takes for a batch.

    python benchmarks/epochs.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch  # noqa: F401  a training script has it loaded before it makes a loader
from films import real_films
from rich.table import Table
from side_by_side import CONSOLE, report, run_contender, run_rounds

import vidload

CONTENDERS = ("vidload", "dataloader-decord")
SETTINGS = ("epochs", "steps", "workers", "batch_size", "num_frames", "stride", "size", "seed")


def waits(loader: Iterable[Any], args: argparse.Namespace, plan: list[Any]) -> list[list[float]]:
    """Seconds waited for each batch of each epoch; what was loaded is added to the plan where batches say it."""
    epochs: list[list[float]] = []
    asked = time.monotonic()
    for _ in range(args.epochs):
        epochs.append([])
        plan.append([])
        for batch in loader:
            epochs[-1].append(time.monotonic() - asked)
            time.sleep(args.step)
            if isinstance(batch, vidload.Batch):
                plan[-1].append(list(zip(batch.video_id.tolist(), batch.frames.tolist(), strict=True)))
            asked = time.monotonic()
    return epochs


def run_one(args: argparse.Namespace) -> dict[str, Any]:
    plan: list[Any] = []
    if args.contender == "dataloader-decord":
        from decord_clips import decord_loader

        planned = json.loads(args.plan.read_text())
        return {"waits": waits(decord_loader(args.index, planned, args.size, args.workers), args, plan)}
    with vidload.VideoIndex(args.index) as videos:
        per_video = args.steps * args.batch_size // len(videos)
    clips = vidload.RandomClips(num_frames=args.num_frames, stride=args.stride, clips_per_video=per_video)
    dataset = vidload.ClipDataset(args.index, clips=clips, size=args.size)
    with vidload.VideoLoader(
        dataset, args.batch_size, epochs=args.epochs, num_workers=args.workers, shuffle=True, seed=args.seed
    ) as loader:
        return {"waits": waits(loader, args, plan), "plan": plan}


def compare(args: argparse.Namespace) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    index, plan = args.out / "films.index", args.out / "plan_epochs.json"
    vidload.build_index(real_films(args.out / "films", args.seconds), index).close()
    settings = [f"--index={index}", f"--plan={plan}", f"--out={args.out}"]
    settings += [f"--{name.replace('_', '-')}={getattr(args, name)}" for name in SETTINGS]

    # Without a step: chooses the clips, and shows how long DataLoader takes for a batch.
    plan.write_text(json.dumps(run_contender(__file__, "vidload", [*settings, "--step=0"])["plan"]))
    loading = run_contender(__file__, "dataloader-decord", [*settings, "--step=0"])["waits"]
    per_batch = sum(map(sum, loading)) / sum(map(len, loading))
    step = args.step or args.slower * per_batch
    CONSOLE.print(f"DataLoader takes {per_batch * 1000:.0f} ms for a batch; the step takes {step * 1000:.0f} ms.")

    arguments = {name: [*settings, f"--step={step}"] for name in CONTENDERS}
    runs: dict[str, list[list[list[float]]]] = {name: [] for name in CONTENDERS}
    for name, figures in run_rounds(__file__, arguments, args.rounds):
        runs[name].append(figures["waits"])
    results = {name: summarize(of) for name, of in runs.items()}
    print_table(results)
    figures = {name: getattr(args, name) for name in (*SETTINGS, "rounds", "seconds")} | {"step_s": step}
    report("epochs", {"settings": figures, "loading_s_per_batch": per_batch, "results": results}, args.json)


def summarize(runs: list[list[list[float]]]) -> dict[str, float]:
    """Waits in seconds, over all rounds."""
    firsts = [epoch[0] for run in runs for epoch in run[1:]]
    everything = [wait for run in runs for epoch in run for wait in epoch]
    return {
        "start_s": statistics.median(run[0][0] for run in runs),
        "first_wait_median_s": statistics.median(firsts),
        "first_wait_largest_s": max(firsts),
        "wait_median_s": statistics.median(everything),
        "first_waits": len(firsts),
        "first_waits_over_5_ms": sum(wait > 0.005 for wait in firsts),
        "ratio": statistics.median(firsts) / statistics.median(everything),
    }


def print_table(results: dict[str, dict[str, float]]) -> None:
    table = Table(title="waits (ms): of the start, of later epochs' first batches and of all, medians")
    columns = ("loader", "start", "epochs' first", "largest", "over 5", "all", "ratio")
    for column in columns:
        table.add_column(column, justify="left" if column == "loader" else "right")
    for name, figures in results.items():
        start, first, largest, everything = (
            f"{figures[key] * 1000:.2f}"
            for key in ("start_s", "first_wait_median_s", "first_wait_largest_s", "wait_median_s")
        )
        over = f"{figures['first_waits_over_5_ms']} of {figures['first_waits']}"
        table.add_row(name, start, first, largest, over, everything, f"{figures['ratio']:.1f}")
    CONSOLE.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=600, help="least length of the films")
    parser.add_argument("--step", type=float, default=None, help="seconds of a step; measured where not given")
    parser.add_argument("--slower", type=float, default=1.5, help="how much longer than loading a measured step is")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--steps", type=int, default=9, help="steps of an epoch")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--num-frames", type=int, default=8)
    parser.add_argument("--stride", type=int, default=4)
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--index", help=argparse.SUPPRESS)
    parser.add_argument("--plan", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        print(json.dumps(run_one(args)))
    else:
        compare(args)


if __name__ == "__main__":
    main()
