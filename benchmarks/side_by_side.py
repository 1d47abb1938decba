"""How the benchmarks compare: each contender in a process of its own, in turn, several rounds, medians and ratios.

A benchmark calls itself with ``--contender NAME``; that run prints one JSON line, its last line of output. Machines get
slower and faster, so contenders take turns, and a ratio is of medians measured in the same run.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import track as rich_track

T = TypeVar("T")
CONSOLE = Console(stderr=True)


def track(items: Sequence[T], description: str) -> Iterable[T]:
    """Show a progress bar on standard error while going through items."""
    return rich_track(items, description, console=CONSOLE) if items else items


def run_contender(script: str, contender: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Run one contender once; returns the figures it printed, and as ``complaints`` its lines on standard error."""
    command = [sys.executable, script, "--contender", contender, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stderr}{' '.join(command)} failed with status {done.returncode}")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures | {"complaints": len(done.stderr.splitlines())}


def run_rounds(
    script: str, contenders: Mapping[str, Sequence[str]], rounds: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Run every contender once per round, in a different order each round.

    Args:
        script: The benchmark.
        contenders: Name and arguments of each.
        rounds: How often.

    Yields:
        Name and figures of each run.
    """
    names = list(contenders)
    turns = [name for turn in range(rounds) for name in names[turn % len(names) :] + names[: turn % len(names)]]
    for name in track(turns, Path(script).stem):
        yield name, run_contender(script, name, contenders[name])


def read_table(page: Path, name: str) -> str:
    """What stands in a page between the marks of a benchmark's tables."""
    return page.read_text().split(f"<!-- {name}: begin -->")[1].split(f"<!-- {name}: end -->")[0]


def write_table(page: Path, name: str, text: str) -> None:
    """Put other text there."""
    before, old = page.read_text(), read_table(page, name)
    begin = f"<!-- {name}: begin -->"
    page.write_text(before.replace(f"{begin}{old}", f"{begin}\n{text.strip()}\n"))


def median(runs: Iterable[Mapping[str, float]], key: str) -> float:
    """The median of one figure over the runs of a contender."""
    return statistics.median(run[key] for run in runs)


def cpu_seconds() -> float:
    """User and system seconds of this process and of the children that ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def report(name: str, figures: dict[str, Any], path: Path | None) -> None:
    """Print a benchmark's figures as one JSON line, and write them to a file where one is named."""
    cores = len(os.sched_getaffinity(0))
    machine = {"python": platform.python_version(), "cores": cores, "load_average": os.getloadavg()[1]}
    figures = {"benchmark": name} | machine | figures
    line = json.dumps(figures)
    print(line)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(line + "\n")
