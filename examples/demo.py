"""From a folder of long videos to training, twice: with vidload, and with torch's DataLoader and decord.

Writes a few long synthetic films (or takes yours with --videos), indexes them and trains a small 3-D conv net on their
clips with ``VideoLoader``. Then the same net takes the same clips (the same videos, the same frame numbers, in the same
order) from ``DataLoader(persistent_workers=True)`` whose data set opens each film with decord, as is commonly done. A
table shows what the training waited for, a picture who did what when.

    python examples/demo.py --out build/demo
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from decord_clips import Batch, ClipPlan, DecordClips, InTurn, collate
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch.utils.data import DataLoader
from train import MEAN, STD, small_net

import vidload
from vidload.report.timeline import Panel, Step, draw_timeline
from vidload.synthetic import loop_film, write_film

CLASSES = ("amber", "basalt", "cobalt")
PIECE_FRAMES = 250
FPS = 25


@dataclass
class EpochTimes:
    """What one epoch cost: seconds waited for its first batch and on average for the others, clips per second."""

    first_wait_s: float
    mean_wait_s: float
    clips_per_s: float


@dataclass
class Run:
    """A new net, and what training it with one loader showed."""

    name: str
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    start: float
    epochs: list[EpochTimes] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    spans: list[vidload.Span] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    samples: list[np.ndarray] = field(default_factory=list)


def normalize(video: torch.Tensor) -> torch.Tensor:
    """Turn uint8[B, C, T, H, W] into float32 of about zero mean and unit variance per channel."""
    shape = (1, 3, 1, 1, 1)
    mean, std = (torch.tensor(values, device=video.device).view(shape) for values in (MEAN, STD))
    return video.float().div_(255).sub_(mean).div_(std)


def new_run(name: str, classes: int, args: argparse.Namespace) -> Run:
    """Make a net, the same each time, and start the clock."""
    torch.manual_seed(args.seed)
    model = small_net(classes, args.width)
    optimizer = torch.optim.AdamW(model.parameters(), args.learning_rate)
    return Run(name, model, optimizer, time.monotonic())


def progress_bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<34}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )


def synthetic_films(folder: Path, films: int, seconds: int, console: Console) -> Path:
    """Write long films, a class in a folder; those of an earlier run are kept."""
    folder = folder / f"{seconds}s"
    paths = [folder / CLASSES[number % len(CLASSES)] / f"film{number}.mp4" for number in range(films)]

    def write(number: int) -> None:
        path = paths[number]
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            piece, part = path.with_name(f".piece{number}.mp4"), path.with_name(f".part{number}.mp4")
            frames = min(PIECE_FRAMES, seconds * FPS)
            # As x264 codes by default: up to 250 frames from keyframe to keyframe, three B-frames.
            look, first = number % len(CLASSES), number * PIECE_FRAMES
            size = {"width": 640, "height": 360}
            write_film(piece, frames, gop=250, b_frames=3, moving=True, look=look, first_number=first, **size)
            loop_film(piece, part, max(1, seconds * FPS // frames))
            piece.unlink()
            part.rename(path)

    with progress_bar(console) as progress, ThreadPoolExecutor(2) as pool:
        for _ in progress.track(pool.map(write, range(films)), total=films, description="writing films"):
            pass
    for path in set(folder.rglob("film*.mp4")) - set(paths):
        path.unlink()
    return folder


def build_index(folder: Path, index: Path) -> None:
    """Index a folder; its subfolders are the classes, where it has some."""
    try:
        vidload.build_index(folder, index, label_from="folder", progress=True)
    except vidload.errors.ArgumentError:
        vidload.build_index(folder, index, progress=True)


def step(run: Run, batch: Batch) -> float:
    """Train on one batch; returns the loss."""
    loss = torch.nn.functional.cross_entropy(run.model(normalize(batch.video)), batch.label)
    run.optimizer.zero_grad()
    loss.backward()
    run.optimizer.step()
    return float(loss.detach())


def train(run: Run, loader: Iterable[Batch], epochs: int, steps: int, progress: Progress) -> None:
    """Train on what the loader gives, and note the times."""
    task = progress.add_task(f"training with {run.name}", total=epochs * steps)
    asked = run.start
    for epoch in range(epochs):
        begin, waits, losses, clips = asked, [], [], 0
        for number, batch in enumerate(loader):
            got = time.monotonic()
            waits.append(got - asked)
            run.spans.append(vidload.Span("wait", -1, epoch, number, asked, got))
            losses.append(step(run, batch))
            clips += len(batch.label)
            run.samples.append(batch.video[..., ::16, ::16].numpy().copy())
            run.spans += batch.spans
            progress.advance(task)
            asked = time.monotonic()
            run.steps.append(Step(epoch, got, asked))
        others = waits[1:] or waits
        run.epochs.append(EpochTimes(waits[0], sum(others) / len(others), clips / (asked - begin)))
        run.losses.append(sum(losses) / len(losses))


class Recorded:
    """Passes a VideoLoader's batches on and notes video, frames and label of every clip.

    Where the films have no labels, the net is to tell the films themselves apart.
    """

    def __init__(self, loader: vidload.VideoLoader, labeled: bool) -> None:
        self.loader, self.labeled = loader, labeled
        self.epochs: list[list[list[tuple[int, list[int], int]]]] = []

    def __iter__(self) -> Iterator[Batch]:
        self.epochs.append([])
        for batch in self.loader:
            label = batch.label if self.labeled else batch.video_id
            rows = zip(batch.video_id.tolist(), batch.frames.tolist(), label.tolist(), strict=True)
            self.epochs[-1].append(list(rows))
            yield Batch(batch.video, label, [])


def train_with_vidload(index: Path, args: argparse.Namespace, progress: Progress) -> tuple[Run, Recorded, int]:
    with vidload.VideoIndex(index) as videos:
        labeled = len(videos.classes) > 1 and int(videos.labels.min()) >= 0
        classes = max(2, len(videos.classes) if labeled else len(videos))
    clips = vidload.RandomClips(num_frames=args.num_frames, stride=args.stride, clips_per_video=args.clips_per_video)
    run = new_run("vidload", classes, args)
    dataset = vidload.ClipDataset(index, clips=clips, size=args.size, decoder=args.decoder)
    traced: list[vidload.Span] = []
    with vidload.VideoLoader(
        dataset,
        args.batch_size,
        epochs=args.epochs,
        num_workers=args.workers,
        shuffle=True,
        seed=args.seed,
        trace=traced.append,
    ) as loader:
        recorded = Recorded(loader, labeled)
        train(run, recorded, args.epochs, len(loader), progress)
    run.spans += [span for span in traced if span.kind in ("read", "decode", "convert")]
    return run, recorded, classes


def train_with_dataloader(
    index: Path, recorded: Recorded, classes: int, args: argparse.Namespace, progress: Progress
) -> Run:
    plan: list[ClipPlan] = []
    epochs: list[list[list[int]]] = []
    with vidload.VideoIndex(index) as videos:
        for epoch, batches in enumerate(recorded.epochs):
            epochs.append([])
            for step, rows in enumerate(batches):
                epochs[-1].append(list(range(len(plan), len(plan) + len(rows))))
                for video_id, frames, label in rows:
                    video = videos[video_id]
                    place = vidload.CenterCrop(args.size).plan(*video.display_size, lambda: 0.0)
                    plan.append(ClipPlan(video.path, frames, label, place.scaled, place.window, epoch, step))
    run = new_run("DataLoader + decord", classes, args)
    loader = DataLoader(
        DecordClips(plan),
        batch_sampler=InTurn(epochs),
        num_workers=args.workers,
        persistent_workers=True,
        collate_fn=collate,
    )
    train(run, loader, args.epochs, len(epochs[0]), progress)
    return run


def print_table(console: Console, runs: list[Run]) -> None:
    table = Table(title="what the training waited for")
    for column in ("loader", "epoch", "wait for the first batch", "mean wait of the others", "clips/s", "loss"):
        table.add_column(column, justify="left" if column == "loader" else "right")
    for run in runs:
        for epoch, (times, loss) in enumerate(zip(run.epochs, run.losses, strict=True)):
            waits = (f"{seconds * 1000:.1f} ms" for seconds in (times.first_wait_s, times.mean_wait_s))
            name = run.name if epoch == 0 else ""
            table.add_row(name, str(epoch), *waits, f"{times.clips_per_s:.1f}", f"{loss:.3f}")
        table.add_section()
    console.print(table)


def differing_clips(first: np.ndarray, second: np.ndarray) -> int:
    """Count the clips of two batches that have a frame whose pixels differ by more than a level on average."""
    return int((np.abs(first.astype(int) - second).mean((1, 3, 4)).max(1) > 1).sum())


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="folder for all that is written")
    parser.add_argument("--videos", type=Path, help="folder of your own videos; subfolders are taken as classes")
    parser.add_argument("--films", type=int, default=6, help="synthetic films to write")
    parser.add_argument("--seconds", type=int, default=300, help="length of each")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--clips-per-video", type=int, default=12)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--num-frames", type=int, default=16)
    parser.add_argument("--stride", type=int, default=4)
    parser.add_argument("--size", type=int, default=112, help="side of the clips in pixels")
    parser.add_argument(
        "--width", type=int, default=48, help="channels of the net's first layer: how long a step takes"
    )
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--decoder", default="decord", help="vidload's: auto, decord or pyav")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.videos is not None and not args.videos.is_dir():
        parser.error(f"--videos {args.videos}: there is no such folder")
    return args


def main() -> int:
    args = parse_arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    # Both loaders share the cores with the training; one thread for it leaves the workers theirs.
    torch.set_num_threads(1)
    console = Console()
    index = args.out / "videos.index"
    folder = args.videos or synthetic_films(args.out / "films", args.films, args.seconds, console)
    build_index(folder, index)
    # What torch sets up in a process's first step is no loader's doing.
    blank = torch.zeros(args.batch_size, 3, args.num_frames, args.size, args.size, dtype=torch.uint8)
    step(new_run("", 2, args), Batch(blank, torch.zeros(args.batch_size, dtype=torch.long), []))
    with progress_bar(console) as progress:
        run, recorded, classes = train_with_vidload(index, args, progress)
        runs = [run, train_with_dataloader(index, recorded, classes, args, progress)]
    print_table(console, runs)
    other = sum(map(differing_clips, *(run.samples for run in runs)))
    clips = sum(len(sample) for sample in run.samples)
    console.print(
        f"Both were asked for the same videos and frames; of {clips} clips, {other} came out differently.",
        soft_wrap=True,
    )
    if other:
        console.print(
            "decord, opened on whole films, gives wrong frames on some films, and on busy machines now and then."
        )

    summary, timeline = args.out / "summary.json", args.out / "timeline.png"
    keys = ("vidload", "dataloader")
    epochs = {key: {"epochs": [asdict(times) for times in run.epochs]} for key, run in zip(keys, runs, strict=True)}
    summary.write_text(json.dumps(epochs, indent=2) + "\n")
    draw_timeline(timeline, [Panel(run.name, run.spans, run.steps, run.start) for run in runs])
    console.print(f"Figures: {summary}", f"Picture: {timeline}", sep="\n", soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
