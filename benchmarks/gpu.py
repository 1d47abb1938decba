"""What a GPU does: how much of the copies hides behind the step, frames per second of NVDEC, and paths side by side.

- Overlap: batches of 8 clips of 16 frames, 224 x 224, from a pinned slot to the GPU while a step of matrix products
  runs that takes as long as given; by CUDA events. Hidden is the share of the copies' time that the loop doesn't take
  longer than the steps alone.
- NVDEC: one film decoded from its first to its last frame on one stream with each backend's own reader, as the ceiling;
  against the frames that the same backend decodes in the loader (those before the first wanted one included).
- Paths: the same clips decoded on the CPU and copied, and decoded on the GPU, each in a process of its own, in turn;
  frames are read by their numbers, so that nobody wins with wrong ones.

Writes OUT/gpu.json and OUT/gpu.md. Needs a CUDA device; a backend that isn't installed is left out and named.

    python benchmarks/gpu.py --out build/gpu
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from side_by_side import CONSOLE, median, report, run_rounds

import vidload
from vidload.decode.slice import plan_slice
from vidload.loader.device import Accelerator
from vidload.loader.memory import Mapping, MemoryFile
from vidload.loader.pipeline import Finished
from vidload.loader.transfer import Transfer
from vidload.synthetic import read_number, write_film

SHAPE = (8, 16, 224, 224, 3)
PATHS = {"pyav": None, "decord": None, "dali": "nvidia.dali", "torchcodec": "torchcodec"}
"""Backends, and the package that has to be there for each."""

SETTINGS = ("codec", "workers", "batch_size", "clips")


def has(package: str | None) -> bool:
    try:
        return package is None or importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def overlap(step_ms: float, steps: int = 60) -> dict[str, float]:
    """Share of the copies' time that is hidden behind steps of a length."""
    device = torch.device("cuda", torch.cuda.current_device())
    matrix = torch.randn(2048, 2048, device=device, dtype=torch.bfloat16)

    def timed(work: Any, repeats: int = 1) -> float:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(repeats):
            work()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / repeats

    timed(lambda: matrix @ matrix, 20)
    products = max(1, round(step_ms / timed(lambda: matrix @ matrix, 200)))

    def step() -> None:
        for _ in range(products):
            matrix @ matrix

    size = torch.Size(SHAPE).numel()
    mappings = [Mapping(MemoryFile.make("benchmark", size), size) for _ in range(3)]
    copying = Accelerator(device)
    for mapping in mappings:
        copying.pin(mapping)
        mapping.array(SHAPE)[:] = 1
    batches = [torch.from_numpy(mapping.array(SHAPE)) for mapping in mappings]
    copy_ms = statistics.median(timed(lambda: batches[0].to(device, non_blocking=True)) for _ in range(20))

    # In one thread here: the copying stream is set for the sends alone.
    current = torch.cuda.current_stream()
    transfer = Transfer(copying)
    transfer.enter()
    side = torch.cuda.current_stream()
    torch.cuda.set_stream(current)

    def send(number: int) -> Any:
        with torch.cuda.stream(side):
            return transfer.send(Finished(batches[number % len(batches)]))

    def loop() -> None:
        sent = [send(number) for number in range(2)]
        for number in range(steps):
            batch = transfer.receive(sent.pop(0)).batch
            sent.append(send(number + 2))
            step()
            batch.record_stream(current)

    loop()
    torch.cuda.synchronize()
    whole = statistics.median(timed(loop) for _ in range(5)) / steps
    alone = statistics.median(timed(step, steps) for _ in range(5))
    transfer.close()
    return {
        "step_ms": alone,
        "copy_ms": copy_ms,
        "loop_ms_per_step": whole,
        "gb_per_s": size / copy_ms / 1e6,
        "hidden": 1 - max(0.0, whole - alone) / copy_ms,
    }


def ceiling(backend: str, film: Path) -> float:
    """Frames per second of a whole film, first to last, on one stream."""
    with vidload.build_index([film], film.with_suffix(".index"), num_workers=0) as index:
        frames, size = index[0].num_frames, film.stat().st_size
    if backend == "torchcodec":
        from torchcodec.decoders import VideoDecoder

        def run() -> None:
            decoder = VideoDecoder(str(film), device="cuda", seek_mode="approximate")
            for first in range(0, frames, 50):
                decoder.get_frames_in_range(first, min(frames, first + 50))
    else:
        import numpy as np
        from nvidia.dali import fn, pipeline_def

        data = np.fromfile(film, np.uint8)
        assert len(data) == size

        @pipeline_def(batch_size=1, num_threads=2, device_id=torch.cuda.current_device())
        def whole() -> Any:
            encoded = fn.external_source(source=lambda: [data], batch=True)
            return fn.decoders.video(encoded, device="mixed")

        pipeline = whole()
        pipeline.build()

        def run() -> None:
            pipeline.run()

    run()
    times = []
    for _ in range(3):
        start = time.monotonic()
        run()
        torch.cuda.synchronize()
        times.append(time.monotonic() - start)
    return frames / statistics.median(times)


def run_path(args: argparse.Namespace) -> dict[str, Any]:
    """Load clips by one path, as a run would, and read their numbers afterwards."""
    index = vidload.VideoIndex(args.index)
    sampler = vidload.RandomClips(num_frames=16, stride=4, clips_per_video=args.clips // len(index))
    dataset = vidload.ClipDataset(index, sampler, 224, args.contender)
    with vidload.VideoLoader(
        dataset, args.batch_size, epochs=2, num_workers=args.workers, shuffle=True, seed=1, device="cuda"
    ) as loader:
        for _ in loader:
            pass  # the first epoch opens decoders
        torch.cuda.synchronize()
        start, kept, packets, clips = time.monotonic(), [], 0, 0
        for batch in loader:
            kept.append((batch.video[:, :, ::5, ::2, ::2].clone(), batch.frames))
            clips += len(batch)
        torch.cuda.synchronize()
        seconds = time.monotonic() - start
    wrong = 0
    for video, frames in kept:
        for clip, numbers in zip(video.permute(0, 2, 3, 4, 1).cpu(), frames[:, ::5].tolist(), strict=True):
            wrong += [read_number(frame.numpy()) for frame in clip] != numbers
    for _, frames in kept:
        packets += sum(plan_slice(index[0], clip).num_packets for clip in frames.tolist())
    return {"clips_per_s": clips / seconds, "frames_decoded_per_s": packets / seconds, "wrong_clips": wrong}


def compare(args: argparse.Namespace) -> None:
    if not torch.cuda.is_available():
        sys.exit("no CUDA device: this benchmark is for a machine that has one")
    args.out.mkdir(parents=True, exist_ok=True)
    encoder = {"h264": "libx264", "hevc": "libx265", "av1": "libsvtav1", "vp9": "libvpx-vp9"}[args.codec]
    film = args.out / f"{args.codec}.mp4"
    if not film.exists():
        write_film(film, 1500, width=1280, height=720, codec=encoder, gop=50, moving=True)
    index = args.out / "films.index"
    vidload.build_index([film], index, num_workers=0).close()
    paths = [name for name, package in PATHS.items() if has(package)]
    missing = [name for name in PATHS if name not in paths]
    settings = [f"--index={index}", *(f"--{name.replace('_', '-')}={getattr(args, name)}" for name in SETTINGS)]
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in paths}
    for name, figures in run_rounds(__file__, dict.fromkeys(paths, settings), args.rounds):
        runs[name].append(figures)
    figures: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "not_installed": missing,
        "overlap": [overlap(step_ms) for step_ms in (1.0, 5.0, 20.0)],
        "ceiling_frames_per_s": {name: ceiling(name, film) for name in ("dali", "torchcodec") if name in paths},
        "paths": {
            name: {key: median(runs[name], key) for key in ("clips_per_s", "frames_decoded_per_s", "wrong_clips")}
            for name in paths
        },
    }
    show(figures, args.out / "gpu.md")
    report("gpu", figures, args.out / "gpu.json")
    if any(path["wrong_clips"] for path in figures["paths"].values()):
        sys.exit("some clips had wrong frames")


def show(figures: dict[str, Any], path: Path) -> None:
    """Print the tables, and write them as Markdown."""
    ceilings = figures["ceiling_frames_per_s"]
    rows = [
        (
            name,
            f"{found['clips_per_s']:.1f}",
            f"{found['frames_decoded_per_s']:.0f}",
            f"{found['frames_decoded_per_s'] / ceilings[name]:.2f}" if name in ceilings else "",
            f"{found['wrong_clips']:.0f}",
        )
        for name, found in figures["paths"].items()
    ]
    heads = ("decoder", "clips/s", "frames decoded/s", "share of its own ceiling", "wrong clips")
    steps = [
        (f"{found['step_ms']:.2f}", f"{found['copy_ms']:.2f}", f"{found['gb_per_s']:.1f}", f"{found['hidden']:.0%}")
        for found in figures["overlap"]
    ]
    step_heads = ("step (ms)", "copy of a batch (ms)", "GB/s", "of it hidden")
    lines = [f"{figures['gpu']}, torch {figures['torch']}", ""]
    for title, head, body in (("Paths", heads, rows), ("Overlap", step_heads, steps)):
        table = Table(title=title)
        lines += [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
        for name in head:
            table.add_column(name)
        for row in body:
            table.add_row(*row)
            lines.append(f"| {' | '.join(row)} |")
        lines.append("")
        CONSOLE.print(table)
    if figures["not_installed"]:
        lines.append(f"Not installed, so left out: {', '.join(figures['not_installed'])}.")
        CONSOLE.print(lines[-1])
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/gpu"), help="folder of films and results")
    parser.add_argument("--codec", default="h264", choices=["h264", "hevc", "av1", "vp9"])
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--clips", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--index", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        import json

        print(json.dumps(run_path(args)))
    else:
        compare(args)


if __name__ == "__main__":
    main()
