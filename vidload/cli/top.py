"""``vidload top``: running loaders, live."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Group

__all__ = ["command"]

_STAGES = ("read", "decode", "convert", "sample", "collate", "transfer", "wait")


def command(
    pids: Annotated[list[int] | None, typer.Argument(metavar="[PID]...", help="Processes; by default all.")] = None,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds from one look to the next.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, a line for each look.")] = False,
) -> None:
    """Watch the loaders of running trainings: throughput, waits, what holds them back. Ctrl-C ends it.

    It finds them by itself, among the processes of the same user.
    """
    from vidload.report.watch import find_loaders

    before: dict[tuple[int, float], tuple[float, int]] = {}
    if as_json or once:
        while True:
            found = find_loaders(pids)
            if as_json:
                print(json.dumps(found), flush=True)
            else:
                from rich.console import Console

                Console().print(_view(found, before))
            if once:
                return
            time.sleep(interval)
    from rich.live import Live

    try:
        with Live(_view(find_loaders(pids), before), auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                live.update(_view(find_loaders(pids), before), refresh=True)
    except KeyboardInterrupt:
        return


def _view(loaders: list[dict[str, Any]], before: dict[tuple[int, float], tuple[float, int]]) -> Group:
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table

    if not loaders:
        return Group("no loader is running that this user may look at")
    shown: list[Any] = []
    for loader in loaders:
        key = (loader["pid"], round(loader["time"] - loader["seconds"], 1))
        rate = _rate(loader, before.get(key))
        before[key] = (loader["time"], loader["samples"])
        counts = {
            "samples": str(loader["samples"]),
            "samples/s": f"{rate:.1f}",
            "waiting": f"{loader['starved']:.1%}",
            "workers idle": f"{loader['backpressure']:.0%}",
            "errors": str(loader["errors"]),
            "restarts": str(loader["restarts"]),
        }
        stages = {kind: stage for kind, stage in loader["stages"].items() if kind in _STAGES}
        medians = {kind: f"{stages[kind]['p50'] * 1000:.1f} ms" for kind in _STAGES if kind in stages}
        shown.append(f"[bold]{loader['pid']}[/] {escape(loader['command'][:100])}")
        for cells in (counts, medians):
            table = Table(box=None)
            for name in cells:
                table.add_column(name, justify="right", no_wrap=True)
            table.add_row(*cells.values())
            shown.append(table)
        shown += [f"  {escape(loader['advice'])}", ""]
    return Group(*shown)


def _rate(loader: dict[str, Any], before: tuple[float, int] | None) -> float:
    """Samples a second since the last look, or since the start."""
    if before is None or loader["time"] <= before[0]:
        return float(loader["samples"] / max(loader["seconds"], 1e-3))
    return float((loader["samples"] - before[1]) / (loader["time"] - before[0]))
