"""The forum thread's question, run: are the next epoch's items loaded while this epoch's last ones train?

A data set of ten integers whose `__getitem__` sleeps and prints, and a model that sleeps less, so that loading with two
workers keeps up. Both go through torch's ``DataLoader(persistent_workers=True)`` and through vidload's ``VideoLoader``,
for one epoch and for two. Every load is also written to a file, so that at the end it can be counted which items were
loaded although nobody trained on them.

    python examples/forum_thread.py
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import rich.box
import rich.console
import rich.table
import torch
from torch.utils.data import DataLoader

from vidload import VideoLoader


class Integers:
    """A map-style data set of integers that take a while to load."""

    def __init__(self, length: int, load_s: float, start: float, log: Path) -> None:
        self.length, self.load_s, self.start, self.log = length, load_s, start, log

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, item: int) -> int:
        if not 0 <= item < self.length:
            raise IndexError(item)
        began = time.monotonic() - self.start
        print(f"  {began:6.2f} s   worker {os.getpid()} loads {item}", flush=True)
        time.sleep(self.load_s)
        # One short write to a file opened for appending: lines of several workers don't mix.
        with self.log.open("a") as log:
            log.write(f"{item}\n")
        return item


class Sleeper(torch.nn.Module):
    """A model that computes nothing, slowly."""

    def __init__(self, step_s: float) -> None:
        super().__init__()
        self.step_s = step_s

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Give the batch back after a while."""
        time.sleep(self.step_s)
        return batch


@dataclass
class Result:
    """What one run showed.

    Attributes:
        name: The loader.
        waits: Per epoch, the seconds waited for each of its batches.
        loaded: Items loaded in all, counted a while after the last step.
        trained: Items the model got.
    """

    name: str
    waits: list[list[float]]
    loaded: int
    trained: int


def train(name: str, loader: Iterable[torch.Tensor], model: Sleeper, epochs: int, data: Integers) -> Result:
    waits: list[list[float]] = []
    trained = 0
    asked = time.monotonic()
    for epoch in range(epochs):
        waits.append([])
        for batch in loader:
            got = time.monotonic()
            waits[-1].append(got - asked)
            waited = f"waited {got - asked:.3f} s"
            print(f"  {got - data.start:6.2f} s   epoch {epoch} trains on {batch.tolist()}, {waited}", flush=True)
            model(batch)
            trained += len(batch)
            asked = time.monotonic()
    # Long enough for a worker that already has another item in hand to finish it.
    time.sleep(2 * data.load_s)
    return Result(name, waits, len(data.log.read_text().splitlines()), trained)


def run(kind: str, epochs: int, args: argparse.Namespace, folder: Path) -> Result:
    log = folder / f"{kind}{epochs}.txt"
    log.touch()
    data, model = Integers(args.items, args.load, time.monotonic(), log), Sleeper(args.step)
    if kind == "DataLoader":
        return train(kind, DataLoader(data, num_workers=2, persistent_workers=True), model, epochs, data)  # type: ignore[arg-type]
    # Told how many epochs there are, it loads nothing beyond the last; else it can only guess that another one follows.
    told = epochs if kind == "VideoLoader" else None
    with VideoLoader(data, num_workers=2, epochs=told) as loader:
        return train(kind, loader, model, epochs, data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10, help="items of the data set")
    parser.add_argument("--load", type=float, default=0.35, help="seconds to load an item")
    parser.add_argument("--step", type=float, default=0.22, help="seconds of a training step")
    args = parser.parse_args()

    results = []
    with tempfile.TemporaryDirectory() as folder:
        for epochs in (1, 2):
            for kind in ("DataLoader", "VideoLoader"):
                print(f"\n{kind}, {epochs} epoch{'s' if epochs > 1 else ''}", flush=True)
                results.append((epochs, run(kind, epochs, args, Path(folder))))
        kind = "VideoLoader, endless"
        print(f"\n{kind}, 1 epoch", flush=True)
        results.append((1, run(kind, 1, args, Path(folder))))

    table = rich.table.Table(
        title=f"Items of {args.load} s, steps of {args.step} s; waits in seconds", box=rich.box.SIMPLE
    )
    for column in ("loader", "epochs", "first waits", "others", "loaded", "in vain"):
        table.add_column(column, justify="left" if column == "loader" else "right")
    for epochs, result in results:
        others = [wait for waits in result.waits for wait in waits[1:]]
        firsts = " / ".join(f"{waits[0]:.3f}" for waits in result.waits)
        mean = f"{sum(others) / max(len(others), 1):.3f}"
        in_vain = str(result.loaded - result.trained)
        table.add_row(result.name, str(epochs), firsts, mean, str(result.loaded), in_vain)
    rich.console.Console().print(table)


if __name__ == "__main__":
    main()
