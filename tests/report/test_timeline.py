from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from vidload.errors import ArgumentError
from vidload.loader.span import Span
from vidload.report.timeline import COLORS, Panel, Step, draw_timeline


def panel_of_two_epochs(title: str, start: float, workers: int = 2, repeats: int = 1) -> Panel:
    """Two epochs of three steps, a second each; reading and decoding a clip takes a second in all."""
    spans, steps = [], []
    for step in range(6 * repeats):
        epoch, begin, worker = step // 3, start + step, step % workers
        spans += [
            Span("read", worker, epoch, step % 3, begin, begin + 0.2),
            Span("decode", worker, epoch, step % 3, begin + 0.2, begin + 0.7),
            Span("convert", worker, epoch, step % 3, begin + 0.7, begin + 1),
            Span("wait", -1, epoch, step % 3, begin + 1.9, begin + 2),
            Span("collate", worker, epoch, step % 3, begin, begin + 1),
        ]
        steps.append(Step(epoch, begin + 1, begin + 1.9))
    return Panel(title, spans, steps, start)


def pixels(path: Path) -> np.ndarray:
    from matplotlib.image import imread

    return np.round(imread(path)[..., :3] * 255).astype(int)


def share_of(picture: np.ndarray, color: str) -> float:
    rgb = [int(color[at : at + 2], 16) for at in (1, 3, 5)]
    return float((np.abs(picture - rgb).max(-1) <= 2).mean())


def test_every_kind_and_epoch_is_drawn_in_its_colour(tmp_path: Path) -> None:
    path = draw_timeline(tmp_path / "timeline.png", [panel_of_two_epochs("vidload", 1000.0)])
    picture = pixels(path)
    for even, odd in COLORS.values():
        assert share_of(picture, even) > 0.0005
        assert share_of(picture, odd) > 0.0005


def test_a_kind_takes_the_room_of_its_seconds(tmp_path: Path) -> None:
    picture = pixels(draw_timeline(tmp_path / "timeline.png", [panel_of_two_epochs("vidload", 5.0)]))
    decode, train = (sum(share_of(picture, shade) for shade in COLORS[kind]) for kind in ("decode", "train"))
    assert decode / train == pytest.approx(0.5 / 0.9, rel=0.1)


def test_a_second_loader_makes_the_picture_higher(tmp_path: Path) -> None:
    one = panel_of_two_epochs("vidload", 0.0)
    two = panel_of_two_epochs("DataLoader", 50.0, workers=1)
    single = pixels(draw_timeline(tmp_path / "one.png", [one]))
    both = pixels(draw_timeline(tmp_path / "two.png", [one, two]))
    assert both.shape[0] > single.shape[0]
    assert both.shape[1] == single.shape[1]


def test_the_longer_run_fits(tmp_path: Path) -> None:
    short = Panel("vidload", [], [Step(0, 0.0, 1.0)], 0.0)
    long = Panel("DataLoader", [], [Step(0, 0.0, 2.0)], 0.0)
    one = share_of(pixels(draw_timeline(tmp_path / "one.png", [short])), COLORS["train"][0])
    both = share_of(pixels(draw_timeline(tmp_path / "both.png", [short, long])), COLORS["train"][0])
    # Of one panel's rows everything is train, of two panels' three quarters.
    assert both / one == pytest.approx(0.75, rel=0.2)


def test_the_suffix_chooses_the_format(tmp_path: Path) -> None:
    path = draw_timeline(tmp_path / "timeline.svg", [panel_of_two_epochs("vidload", 0.0)])
    assert "<svg" in path.read_text()


def test_thousands_of_spans_can_be_drawn(tmp_path: Path) -> None:
    draw_timeline(tmp_path / "timeline.png", [panel_of_two_epochs("vidload", 0.0, repeats=500)])


@pytest.mark.parametrize("panels", [[], [Panel("vidload", [], [], 0.0)]])
def test_nothing_to_draw_is_refused(panels: list[Panel], tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="nothing to draw"):
        draw_timeline(tmp_path / "timeline.png", panels)


def test_matplotlib_is_imported_only_to_draw() -> None:
    code = "import sys, vidload.report.timeline; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
