"""Decoding clips to RGB and to planar YUV 4:2:0: time of a clip, and bytes that travel from then on.

The same clips of the same films by each contender, in one thread, in turn over several rounds. Reading is not counted;
libavcodec's part is the same for all of PyAV's.

    python benchmarks/wire.py
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from films import real_films
from rich.table import Table
from side_by_side import CONSOLE, median, report, run_rounds

import vidload
from vidload.clips.random import clip_uniform

CONTENDERS: dict[str, tuple[str, str]] = {
    "rgb by decord": ("decord", "rgb"),
    "rgb by pyav": ("pyav", "rgb"),
    "yuv420 by pyav": ("pyav", "yuv420"),
}
BASE = "rgb by pyav"
SETTINGS = ("clips", "num_frames", "stride", "size", "geometry", "seed")


def run_one(args: argparse.Namespace) -> dict[str, Any]:
    decoder, wire = CONTENDERS[args.contender]
    geometry = vidload.RandomResizedCrop(args.size) if args.geometry == "random" else vidload.CenterCrop(args.size)
    clips = vidload.RandomClips(num_frames=args.num_frames, stride=args.stride)
    dataset = vidload.ClipDataset(args.index, clips, geometry, decoder=decoder)
    plans = [
        dataset.plan(*dataset.locate(number % len(dataset)), clip_uniform(args.seed, number, 0))
        for number in range(args.clips)
    ]
    out = np.zeros(plans[0].wire_shape(wire), np.uint8)
    dataset.decode(plans[0], out, wire)  # opens the codec
    seconds, cpu = 0.0, time.process_time()
    for plan in plans:
        times = dataset.decode(plan, out, wire).times
        seconds += times.decoded - times.read
    cpu = time.process_time() - cpu
    return {"decode_s_per_clip": seconds / len(plans), "cpu_s_per_clip": cpu / len(plans), "bytes_per_clip": out.nbytes}


def compare(args: argparse.Namespace) -> None:
    folder = args.out.resolve()
    films = real_films(folder / "films", args.seconds)
    index = folder / "wire.index"
    vidload.build_index(films, index, num_workers=0).close()
    arguments = [f"--{name.replace('_', '-')}={getattr(args, name)}" for name in SETTINGS] + [f"--index={index}"]
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTENDERS}
    for name, figures in run_rounds(__file__, dict.fromkeys(CONTENDERS, arguments), args.rounds):
        runs[name].append(figures)
    medians = {name: {key: median(of, key) for key in of[0]} for name, of in runs.items()}
    ratios = {
        name: {key: medians[name][key] / medians[BASE][key] for key in medians[name] if key != "complaints"}
        | {
            "decode_by_round": [
                one["decode_s_per_clip"] / base["decode_s_per_clip"] for one, base in zip(of, runs[BASE], strict=True)
            ]
        }
        for name, of in runs.items()
    }
    table = Table(title=f"{args.clips} clips of {args.num_frames} × {args.stride} at {args.size}, {args.geometry} crop")
    for column in ("contender", "decode (ms)", "ratio", "by round", "kB", "ratio"):
        table.add_column(column, justify="left" if column == "contender" else "right")
    for name, ratio in ratios.items():
        spread = ratio["decode_by_round"]
        table.add_row(
            name,
            f"{medians[name]['decode_s_per_clip'] * 1000:.1f}",
            f"{ratio['decode_s_per_clip']:.3f}",
            f"{min(spread):.3f} to {max(spread):.3f}",
            f"{medians[name]['bytes_per_clip'] / 1000:.0f}",
            f"{ratio['bytes_per_clip']:.2f}",
        )
    CONSOLE.print(table)
    settings = {name: getattr(args, name) for name in (*SETTINGS, "rounds", "seconds")}
    report("wire", {"settings": settings, "medians": medians, "ratios": ratios}, args.json)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clips", type=int, default=24, help="clips per run")
    parser.add_argument("--seconds", type=int, default=600, help="least length of the films")
    parser.add_argument("--num-frames", type=int, default=16)
    parser.add_argument("--stride", type=int, default=4)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--geometry", default="centre", choices=("centre", "random"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--index", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        print(json.dumps(run_one(args)))
    else:
        compare(args)


if __name__ == "__main__":
    main()
