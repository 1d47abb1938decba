"""A picture of who did what when: each worker's reading and decoding, and the training, on one time axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vidload.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from vidload.loader.span import Span

__all__ = ["Panel", "draw_timeline"]

COLORS = {
    "read": ("#e69f00", "#f5d58a"),
    "decode": ("#0072b2", "#85bfe0"),
    "train": ("#009e73", "#8ad6bf"),
    "wait": ("#d55e00", "#d55e00"),
}
"""For each kind of span the colour in even and in odd epochs (Okabe and Ito's palette, safe for the colour-blind)."""
CONSUMER = -1
"""The `worker` of spans of the process that trains."""


@dataclass(frozen=True)
class Panel:
    """What one loader did.

    Attributes:
        title: Name of the loader.
        spans: What was done; kinds other than read, decode, train and wait aren't drawn.
        start: Time that is drawn as 0, seconds of the spans' clock.
    """

    title: str
    spans: Sequence[Span]
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
    if not panels or not all(panel.spans for panel in panels):
        raise ArgumentError(
            "panels has nothing to draw: give one per loader, each with the spans that its trace was given"
        )
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
    present = {span.kind for panel in panels for span in panel.spans}
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
    for kind, shades in COLORS.items():
        for worker, row in row_of.items():
            spans = [span for span in panel.spans if span.kind == kind and span.worker == worker]
            # One collection per row and kind: thousands of single bars would take minutes to draw.
            axes.broken_barh(
                [(span.start - panel.start, span.end - span.start) for span in spans],
                (row - 0.4, 0.8),
                facecolors=[shades[span.epoch % 2] for span in spans],
            )
    for epoch, begin in sorted(_epoch_starts(panel).items()):
        axes.axvline(begin, color="black", linewidth=1, linestyle="--")
        axes.annotate(
            f"epoch {epoch}", (begin, 1), xycoords=("data", "axes fraction"), xytext=(3, 2), textcoords="offset points"
        )
    axes.set_yticks(range(len(workers) + 1), ["train", *(f"worker {worker}" for worker in workers)])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_title(panel.title, loc="right", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)


def _epoch_starts(panel: Panel) -> dict[int, float]:
    """When each epoch's first step begins, seconds from the panel's start."""
    starts: dict[int, float] = {}
    for span in panel.spans:
        if span.kind == "train":
            starts[span.epoch] = min(starts.get(span.epoch, float("inf")), span.start - panel.start)
    return starts
