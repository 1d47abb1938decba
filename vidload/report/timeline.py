"""A picture of who did what when: each worker's reading and decoding, and the training, on one time axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vidload.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vidload.loader.span import Span

__all__ = ["Panel", "Step", "draw_timeline"]

COLORS = {
    "read": ("#e69f00", "#f5d58a"),
    "decode": ("#0072b2", "#85bfe0"),
    "convert": ("#cc79a7", "#e6bcd3"),
    "train": ("#009e73", "#8ad6bf"),
    "wait": ("#d55e00", "#d55e00"),
}
"""For each kind of span the colour in even and in odd epochs (Okabe and Ito's palette, safe for the colour-blind)."""
CONSUMER = -1
"""The `worker` of spans of the process that trains."""


class Step(NamedTuple):
    """One training step, from getting the batch to asking for the next, in seconds of the spans' clock."""

    epoch: int
    start: float
    end: float


@dataclass(frozen=True)
class Panel:
    """What one loader and the training that it fed did.

    Attributes:
        title: Name of the loader.
        spans: What the loader's trace was given; kinds other than read, decode, convert and wait aren't drawn.
        steps: The training.
        start: Time that is drawn as 0, seconds of the spans' clock.
    """

    title: str
    spans: Sequence[Span]
    steps: Sequence[Step]
    start: float


def draw_timeline(path: str | Path, panels: Sequence[Panel]) -> Path:
    """Draw loaders one above the other on the same time axis.

    Every panel has a row for the training and one for each worker. Colours say what is done, and their lightness for
    which epoch (even ones dark, odd ones light); a line marks where each epoch's first step begins.

    Args:
        path: File to write; the suffix chooses the format (``.png .svg .pdf``).
        panels: One per loader, at least one.

    Returns:
        The path written.

    Raises:
        ArgumentError: If there is nothing to draw.
        ImportError: If matplotlib isn't installed (``pip install vidload[plot]``).
    """
    if not panels or not all(panel.steps for panel in panels):
        raise ArgumentError("panels: there is nothing to draw; give one per loader, each with its training steps")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    rows = [len(_workers(panel)) + 1 for panel in panels]
    figure = Figure(figsize=(14, 1.1 + sum(0.8 + 0.4 * count for count in rows)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=[0.8 + 0.4 * n for n in rows])
    for axes, panel in zip(grid[:, 0], panels, strict=True):
        _draw_panel(axes, panel)
    grid[-1, 0].set_xlabel("seconds")
    ends = [
        max(part.end for part in parts) - panel.start
        for panel in panels
        for parts in (panel.spans, panel.steps)
        if parts
    ]
    grid[-1, 0].set_xlim(0, max(ends))
    present = {"train", *(span.kind for panel in panels for span in panel.spans)}
    patches = [
        Patch(color=color, label=f"{kind}, {parity} epochs" if kind != "wait" else "wait for a batch")
        for kind, shades in COLORS.items()
        if kind in present
        for color, parity in zip(dict.fromkeys(shades), ("even", "odd"), strict=False)
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=len(patches), frameon=False, fontsize="small")
    figure.savefig(path, dpi=130)
    return Path(path)


def _workers(panel: Panel) -> list[int]:
    return sorted({span.worker for span in panel.spans if span.worker != CONSUMER})


def _draw_panel(axes: Axes, panel: Panel) -> None:
    workers = _workers(panel)
    row_of = {CONSUMER: 0} | {worker: row + 1 for row, worker in enumerate(workers)}
    _draw_row(axes, panel, 0, "train", panel.steps)
    for kind in ("wait", "read", "decode", "convert"):
        for worker, row in row_of.items():
            _draw_row(axes, panel, row, kind, [s for s in panel.spans if s.kind == kind and s.worker == worker])
    for epoch in sorted({step.epoch for step in panel.steps}):
        begin = min(step.start for step in panel.steps if step.epoch == epoch) - panel.start
        axes.axvline(begin, color="black", linewidth=1, linestyle="--")
        axes.annotate(
            f"epoch {epoch}", (begin, 1), xycoords=("data", "axes fraction"), xytext=(3, 2), textcoords="offset points"
        )
    axes.set_yticks(range(len(workers) + 1), ["train", *(f"worker {worker}" for worker in workers)])
    axes.invert_yaxis()
    axes.set_title(panel.title, loc="right", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_row(axes: Axes, panel: Panel, row: int, kind: str, parts: Sequence[Span] | Sequence[Step]) -> None:
    # One collection per row and kind: thousands of single bars would take minutes to draw.
    axes.broken_barh(
        [(part.start - panel.start, part.end - part.start) for part in parts],
        (row - 0.4, 0.8),
        facecolors=[COLORS[kind][part.epoch % 2] for part in parts],
    )
