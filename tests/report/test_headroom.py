"""How much faster training would be with an infinitely fast loader."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import vidload
from tests.films import FilmFolder
from tests.loader.datasets import Numbers
from vidload import VideoLoader, measure_headroom
from vidload.cli.app import app
from vidload.errors import ArgumentError


class Slow:
    """A loader on whose clock each batch takes a while, as does each step."""

    def __init__(self, now: list[float], seconds: float, batches: int = 1000) -> None:
        self.now, self.seconds, self.batches = now, seconds, batches

    def __iter__(self) -> Iterator[int]:
        for number in range(self.batches):
            self.now[0] += self.seconds
            yield number


@pytest.mark.parametrize(("loading", "faster"), [(0.0, 0.0), (0.5, 0.25), (2.0, 1.0)])
def test_it_is_the_share_of_a_step_that_loading_takes(loading: float, faster: float) -> None:
    now = [100.0]
    seen: list[int] = []

    def step(batch: int) -> None:
        seen.append(batch)
        now[0] += 2.0

    loader: Any = Slow(now, loading)
    found = measure_headroom(loader, step, 11, warmup=3, clock=lambda: now[0])
    assert found.loaded == pytest.approx(2.0 + loading)
    assert found.replayed == pytest.approx(2.0)
    assert found.faster == pytest.approx(faster)
    assert [number for number in seen if seen.count(number) == 1 or number < 4]
    assert len(seen) == 3 + 2 * 11
    assert ("gain nothing" in str(found)) == (faster == 0)


def test_it_runs_on_a_loader_over_epochs() -> None:
    with VideoLoader(Numbers(8), 2, num_workers=1, worker_kind="thread") as loader:
        found = measure_headroom(loader, lambda batch: batch.sum(), 10, warmup=2)
    assert found.steps == 10
    assert found.loaded > 0


def test_too_few_batches_are_told() -> None:
    with (
        VideoLoader(Numbers(8), 2, epochs=1, num_workers=0) as loader,
        pytest.raises(ArgumentError, match="fewer than"),
    ):
        measure_headroom(loader, lambda batch: None, 10)


def test_the_command_line_says_it(film_file: FilmFolder, tmp_path: Path) -> None:
    vidload.build_index([film_file("h264_bframes")], tmp_path / "films.index", num_workers=0).close()
    config = tmp_path / "run.yaml"
    config.write_text(
        "dataset: {index: films.index, clips: {type: random, num_frames: 2, clips_per_video: 24}, size: 32}\n"
        "loader: {batch_size: 2, num_workers: 1, worker_kind: thread}\n"
    )
    result = CliRunner().invoke(app, ["run", str(config), "--headroom", "--step-seconds", "0.01"])
    assert result.exit_code == 0, result.output
    assert "ms a step with the loader" in result.output
    told = json.loads(
        CliRunner().invoke(app, ["run", str(config), "--headroom", "--step-seconds", "0.01", "--json"]).stdout
    )
    assert told["steps"] == 9
    assert told["replayed_s"] >= 0.01
    assert CliRunner().invoke(app, ["run", str(config), "--headroom"]).exit_code == 2
