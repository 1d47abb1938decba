"""Clips per second, time to the first batch and processor time: vidload and DataLoader + decord on the same clips.

Three long films of real footage, 16 frames at stride 4, 224 x 224, two workers. Each contender runs in a process of
its own, in turn, several times; nothing is done with the batches but to look at some of their pixels. An uncounted
first run chooses the clips (and warms the page cache for all), so that every contender loads the same videos and
frames; pixels are compared, so that nobody wins with other frames.

Where vidload's time goes is shown by its own trace (reading, decoding) and by what libavcodec alone takes, in one
thread without any scaling, for the packets of the slices and for all packets since the keyframe.

    python benchmarks/throughput.py
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch  # noqa: F401  a training script has it loaded before it makes a loader
from films import real_films
from rich.table import Table
from side_by_side import CONSOLE, cpu_seconds, median, report, run_contender, run_rounds

import vidload
from vidload.decode.source import read_slice

CONTENDERS = ("vidload-decord", "vidload-pyav", "dataloader-decord", "libavcodec")
REFERENCE = "vidload-pyav"
PEER, FLOOR = "dataloader-decord", "libavcodec"
SETTINGS = ("clips", "workers", "worker_kind", "batch_size", "num_frames", "stride", "size", "seed")
PIXEL_STEP = 16


def run_vidload(args: argparse.Namespace, decoder: str) -> dict[str, Any]:
    spans: list[vidload.Span] = []
    before, start = cpu_seconds(), time.monotonic()
    clips = vidload.RandomClips(
        num_frames=args.num_frames, stride=args.stride, clips_per_video=args.clips // len(args.films)
    )
    dataset = vidload.ClipDataset(args.index, clips=clips, size=args.size, decoder=decoder)
    with vidload.VideoLoader(
        dataset,
        args.batch_size,
        epochs=1,
        num_workers=args.workers,
        worker_kind=args.worker_kind,
        shuffle=True,
        seed=args.seed,
        trace=spans.append,
    ) as loader:
        times, pixels, plan = [], [], []
        for batch in loader:
            times.append(time.monotonic())
            pixels.append(batch.video[..., ::PIXEL_STEP, ::PIXEL_STEP].permute(0, 2, 3, 4, 1).numpy().copy())
            plan.append(list(zip(batch.video_id.tolist(), batch.frames.tolist(), strict=True)))
    cpu = cpu_seconds() - before
    np.save(args.pixels, np.concatenate(pixels))
    count = sum(map(len, plan))
    stages = {
        f"{kind}_s": sum(s.end - s.start for s in spans if s.kind == kind) / count
        for kind in ("read", "decode", "convert")
    }
    return rates(start, times, count, cpu) | stages | {"plan": [plan]}


def run_dataloader(args: argparse.Namespace) -> dict[str, Any]:
    from decord_clips import decord_loader

    plan = json.loads(args.plan.read_text())
    before, start = cpu_seconds(), time.monotonic()
    loader = decord_loader(args.index, plan, args.size, args.workers)
    times, pixels = [], []
    for batch in loader:
        times.append(time.monotonic())
        pixels.append(batch[..., ::PIXEL_STEP, ::PIXEL_STEP, :].numpy().copy())
    # The workers end with the loader; only then their processor time is known.
    del loader
    cpu = cpu_seconds() - before
    np.save(args.pixels, np.concatenate(pixels))
    return rates(start, times, sum(map(len, plan[0])), cpu)


def rates(start: float, times: list[float], clips: int, cpu: float) -> dict[str, Any]:
    return {
        "first_batch_s": times[0] - start,
        "clips_per_s": clips / (times[-1] - start),
        "cpu_s_per_clip": cpu / clips,
        "total_s": times[-1] - start,
    }


def run_libavcodec(args: argparse.Namespace) -> dict[str, Any]:
    """Decode the clips' packets, and nothing else."""
    figures: dict[str, Any] = {}
    clips = [clip for steps in json.loads(args.plan.read_text()) for batch in steps for clip in batch]
    with vidload.VideoIndex(args.index) as videos:
        contexts = {}
        for video in videos:
            with av.open(video.path) as container:
                context = av.CodecContext.create(video.codec, "r")
                context.extradata = container.streams.video[0].codec_context.extradata
                context.thread_count = 1
                contexts[video.id] = context
        for key, drop in (("slice", True), ("all", False)):
            pieces = [(video, read_slice(videos[video], frames, drop_disposable=drop)) for video, frames in clips]
            start = time.process_time()
            for video, piece in pieces:
                for run in piece.data:
                    for payload in run:
                        contexts[video].decode(av.Packet(payload))
                    contexts[video].decode(None)
                    contexts[video].flush_buffers()
            figures[f"{key}_s_per_clip"] = (time.process_time() - start) / len(clips)
            figures[f"{key}_packets"] = sum(piece.plan.num_packets for _, piece in pieces) / len(clips)
    return figures


def run_one(args: argparse.Namespace) -> dict[str, Any]:
    if args.contender.startswith("vidload"):
        return run_vidload(args, args.contender.split("-")[1])
    return run_dataloader(args) if args.contender == PEER else run_libavcodec(args)


def differing_clips(first: Path, second: Path, tolerance: float) -> int:
    """Count the clips with a frame whose pixels differ by more than `tolerance` levels on average."""
    pixels = (np.load(path).astype(int) for path in (first, second))
    return int((np.abs(next(pixels) - next(pixels)).mean((2, 3, 4)).max(1) > tolerance).sum())


def compare(args: argparse.Namespace) -> None:
    args.out.mkdir(parents=True, exist_ok=True)
    films = real_films(args.out / "films", args.seconds)
    index = args.out / "films.index"
    vidload.build_index(films, index).close()
    plan = args.out / "plan.json"
    settings = [f"--index={index}", f"--plan={plan}", *(f"--films={film}" for film in films)]
    settings += [f"--{name.replace('_', '-')}={getattr(args, name)}" for name in SETTINGS]
    arguments = {name: [*settings, f"--pixels={args.out / name}.npy"] for name in CONTENDERS}

    first = run_contender(__file__, REFERENCE, arguments[REFERENCE])
    plan.write_text(json.dumps(first["plan"]))
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTENDERS}
    for name, figures in run_rounds(__file__, arguments, args.rounds):
        if figures.pop("plan", first["plan"]) != first["plan"]:
            raise SystemExit(f"{name} loaded other clips than the first run did")
        if name != FLOOR:
            pixels = (args.out / f"{contender}.npy" for contender in (REFERENCE, name))
            figures["wrong_clips"] = differing_clips(*pixels, args.tolerance)
            if figures["wrong_clips"] and name != PEER:
                raise SystemExit(f"{name} and {REFERENCE} gave different frames")
        runs[name].append(figures)
    results = summarize(runs, [name for name in CONTENDERS if name != FLOOR])
    print_tables(results, args)
    figures = {name: getattr(args, name) for name in (*SETTINGS, "rounds", "seconds")}
    report("throughput", {"settings": figures, **results}, args.json)


def summarize(runs: dict[str, list[dict[str, Any]]], loaders: list[str]) -> dict[str, Any]:
    medians = {name: {key: median(of, key) for key in of[0]} for name, of in runs.items()}
    ratios = {
        name: {
            "clips_per_s": medians[name]["clips_per_s"] / medians[PEER]["clips_per_s"],
            "first_batch_s": medians[name]["first_batch_s"] / medians[PEER]["first_batch_s"],
            "cpu_s_per_clip": medians[name]["cpu_s_per_clip"] / medians[PEER]["cpu_s_per_clip"],
            # Rounds have their own ratios too: how far they lie apart says how much to believe.
            "clips_per_s_by_round": [
                one["clips_per_s"] / other["clips_per_s"] for one, other in zip(runs[name], runs[PEER], strict=True)
            ],
        }
        for name in loaders
    }
    wrong = sum(run["wrong_clips"] for run in runs[PEER])
    return {"medians": medians, "ratios_to_dataloader": ratios, "wrong_clips_of_dataloader": wrong}


def print_tables(results: dict[str, Any], args: argparse.Namespace) -> None:
    medians, ratios = results["medians"], results["ratios_to_dataloader"]
    table = Table(
        title=f"{args.clips} clips of {args.num_frames} x {args.stride} at {args.size}, {args.workers} workers"
    )
    for column in ("contender", "clips/s", "ratio", "first (s)", "ratio", "CPU s/clip", "ratio"):
        table.add_column(column, justify="left" if column == "contender" else "right")
    for name, ratio in ratios.items():
        cells = []
        for key, digits in (("clips_per_s", 2), ("first_batch_s", 2), ("cpu_s_per_clip", 3)):
            cells += [f"{medians[name][key]:.{digits}f}", f"{ratio[key]:.2f}"]
        table.add_row(name, *cells)
    CONSOLE.print(table)

    alone = medians[FLOOR]
    table = Table(title="where the time of a clip goes (ms of one worker)")
    for column in ("contender", "read", "decode", "of it libavcodec", "other", "in all"):
        table.add_column(column, justify="left" if column == "contender" else "right")
    for name in ratios:
        if name != PEER:
            whole = args.workers / medians[name]["clips_per_s"]
            read, decode = medians[name]["read_s"], medians[name]["decode_s"]
            cells = (read, decode, alone["slice_s_per_clip"], whole - read - decode, whole)
            table.add_row(name, *(f"{seconds * 1000:.1f}" for seconds in cells))
    CONSOLE.print(table)
    share = alone["slice_s_per_clip"] / alone["all_s_per_clip"]
    CONSOLE.print(
        "libavcodec's part is what these frames cost at least; the rest of decoding is scaling, conversion and the "
        "backend's own work, and other is starting, waiting for the slowest clip of a batch and the consumer."
    )
    CONSOLE.print(
        f"A slice has {alone['slice_packets']:.0f} packets of {alone['all_packets']:.0f} since the keyframe and takes "
        f"libavcodec {share:.0%} of their time."
    )
    if results["wrong_clips_of_dataloader"]:
        CONSOLE.print(
            f"decord, opened on whole films, gave wrong frames in {results['wrong_clips_of_dataloader']} of "
            f"{args.clips * args.rounds} clips; vidload in none."
        )
    spread = ", ".join(
        f"{name} {min(of['clips_per_s_by_round']):.2f} to {max(of['clips_per_s_by_round']):.2f}"
        for name, of in ratios.items()
        if name != PEER
    )
    CONSOLE.print(f"Ratios of clips/s in single rounds: {spread}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clips", type=int, default=48, help="clips per run")
    parser.add_argument("--seconds", type=int, default=600, help="least length of the films")
    parser.add_argument(
        "--tolerance", type=float, default=0.5, help="pixel difference of a frame, in levels, that makes it another"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--worker-kind", default="process", choices=("process", "thread"))
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--num-frames", type=int, default=16)
    parser.add_argument("--stride", type=int, default=4)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--seed", type=int, default=0)
    for name in ("--contender", "--index", "--pixels"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--plan", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--films", action="append", default=[], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        print(json.dumps(run_one(args)))
    else:
        compare(args)


if __name__ == "__main__":
    main()
