"""Memory of the loader's process and of its workers over many epochs of a small set: it has to stay flat.

What counts is resident memory less pages of files (RssAnon and RssShmem of ``/proc/PID/status``: the slots of batches
are among it). The first tenth of the epochs is left out, in which decoders, allocators and caches find their size; over
the rest a line is fitted through the measurements, and what it rises is the growth. The run fails (status 1) where that
is more than ``--allowed-mb`` for the parent or for any worker, or where descriptors and threads became more.

    python benchmarks/soak.py
    python benchmarks/soak.py --epochs 30 --worker-kind thread
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.table import Table
from side_by_side import CONSOLE, report, track

import vidload
from vidload.synthetic import write_film

WARM_UP = 0.1
"""Share of the epochs before measurements count."""

ALLOWED_MORE = 3
"""Descriptors and threads that a process may have more at the end: a clip may be under way when they are counted."""


def children(pid: int) -> list[int]:
    """Processes that a process started."""
    found: list[str] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a decoder's thread that has ended meanwhile
            found += (task / "children").read_text().split()
    return sorted(map(int, found))


def memory_mb(pid: int) -> float:
    """Resident memory of a process less its pages of files, which come and go with the page cache."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return sum(int(lines[name].split()[0]) for name in ("RssAnon", "RssShmem")) / 1024


def open_things(pid: int) -> int:
    """Descriptors and threads of a process."""
    return len(os.listdir(f"/proc/{pid}/fd")) + len(os.listdir(f"/proc/{pid}/task"))


def growth(values: Sequence[float]) -> float:
    """What a line through the values rises from the first to the last."""
    if len(values) < 2:
        return 0.0
    slope = np.polynomial.Polynomial.fit(np.arange(len(values)), values, 1).convert().coef
    return float(slope[1] if len(slope) > 1 else 0.0) * (len(values) - 1)


def soak(index: Path, args: argparse.Namespace) -> tuple[dict[str, list[float]], dict[str, list[int]]]:
    """Run the loader; returns memory and number of open things after every epoch, by process."""
    memory: dict[str, list[float]] = {}
    things: dict[str, list[int]] = {}
    clips = vidload.RandomClips(num_frames=4, stride=2, clips_per_video=4)
    dataset = vidload.ClipDataset(index, clips, size=vidload.RandomResizedCrop(64), decoder=args.decoder)
    loader = vidload.VideoLoader(
        dataset, 4, epochs=args.epochs, num_workers=args.workers, worker_kind=args.worker_kind, shuffle=True
    )
    with loader:
        for epoch in track(range(args.epochs), "epochs"):
            for _ in loader:
                pass
            if epoch == args.epochs - 1:  # the workers are ending
                break
            gc.collect()
            processes = {"parent": os.getpid()}
            processes |= {f"worker {number}": pid for number, pid in enumerate(children(os.getpid()))}
            for name, pid in processes.items():
                memory.setdefault(name, []).append(memory_mb(pid))
                things.setdefault(name, []).append(open_things(pid))
    return memory, things


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--worker-kind", choices=["process", "thread"], default="process")
    parser.add_argument("--decoder", choices=["auto", "decord", "pyav"], default="auto")
    parser.add_argument("--allowed-mb", type=float, default=8.0, help="growth of a process that is still called flat")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        films = [write_film(Path(folder) / f"{n}.mp4", 40, width=128, height=64, gop=10) for n in range(4)]
        vidload.build_index(films, Path(folder) / "films.index", num_workers=0).close()
        memory, things = soak(Path(folder) / "films.index", args)

    table = Table(title=f"memory over {args.epochs} epochs, {args.workers} of kind {args.worker_kind}")
    for column in ("process", "first (MB)", "last (MB)", "growth (MB)", "slope (kB/epoch)", "descriptors and threads"):
        table.add_column(column, justify="left" if column == "process" else "right")
    figures, flat = {}, True
    for name, values in memory.items():
        steady = values[int(len(values) * WARM_UP) :]
        counts = things[name][int(len(values) * WARM_UP) :]
        rises = growth(steady)
        more = growth(counts)
        slope = 1024 * rises / max(1, len(steady) - 1)
        flat = flat and rises <= args.allowed_mb and more <= ALLOWED_MORE
        figures[name] = {"first_mb": steady[0], "last_mb": steady[-1], "growth_mb": rises, "more_open": more}
        table.add_row(
            name,
            f"{steady[0]:.1f}",
            f"{steady[-1]:.1f}",
            f"{rises:+.2f}",
            f"{slope:+.2f}",
            f"{counts[0]} to {counts[-1]}",
        )
    CONSOLE.print(table)
    CONSOLE.print(f"{'Flat' if flat else 'It grows'} (allowed: {args.allowed_mb} MB for a process).")
    report("soak", {"epochs": args.epochs, "allowed_mb": args.allowed_mb, "processes": figures}, args.json)
    return int(not flat)


if __name__ == "__main__":
    sys.exit(main())
