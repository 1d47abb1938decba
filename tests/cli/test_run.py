"""``vidload run`` measures waits and rates, whatever ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import vidload
from tests.films import FilmFolder
from vidload.cli.app import app
from vidload.cli.drive import EpochMeter, drive

MAIN = "from vidload.cli.app import main; main()"


Run = Callable[..., "Result"]


class Clock:
    """Time that passes only when something sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Loader:
    """Gives `steps` batches of 2 clips of 8 frames an epoch, each after its own loading time."""

    def __init__(self, clock: Clock, loading: list[list[float]], interrupt_at: tuple[int, int] | None = None) -> None:
        self.clock, self.loading, self.interrupt_at = clock, loading, interrupt_at
        self.epoch = 0
        self.given: list[tuple[int, int]] = []
        self.closed = False

    def __len__(self) -> int:
        return len(self.loading[0])

    def __iter__(self) -> Iterator[Any]:
        epoch = self.epoch
        self.epoch += 1
        for step, seconds in enumerate(self.loading[epoch]):
            if (epoch, step) == self.interrupt_at:
                raise KeyboardInterrupt
            self.clock.sleep(seconds)
            self.given.append((epoch, step))
            yield SimpleNamespace(frames=np.zeros((2, 8), dtype=np.int64))

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True


def test_waits_are_told_apart_from_steps() -> None:
    clock = Clock()
    loader = Loader(clock, [[3.0, 0.5, 0.25, 0.0], [1.0, 0.0, 0.0, 0.0]])
    meters: list[EpochMeter] = []
    drive(loader, meters, epochs=2, step_seconds=2.0, clock=clock, sleep=clock.sleep)
    assert [meter.summary() for meter in meters] == [
        {
            "batches": 4,
            "clips": 8,
            "frames": 64,
            "seconds": 11.75,
            "first_wait_s": 3.0,
            "mean_wait_s": 0.25,
            "clips_per_s": 8 / 11.75,
            "frames_per_s": 64 / 11.75,
        },
        {
            "batches": 4,
            "clips": 8,
            "frames": 64,
            "seconds": 9.0,
            "first_wait_s": 1.0,
            "mean_wait_s": 0.0,
            "clips_per_s": 8 / 9.0,
            "frames_per_s": 64 / 9.0,
        },
    ]


def test_an_epoch_of_one_batch_has_no_mean_of_others() -> None:
    clock = Clock()
    meters: list[EpochMeter] = []
    drive(Loader(clock, [[3.0]]), meters, epochs=1, clock=clock, sleep=clock.sleep)
    assert (meters[0].first_wait, meters[0].mean_wait) == (3.0, None)


def test_steps_ends_each_epoch_early_and_asks_for_no_further_batch() -> None:
    clock = Clock()
    loader = Loader(clock, [[1.0] * 9, [1.0] * 9])
    seen: list[int] = []
    drive(loader, [], epochs=2, steps=3, clock=clock, sleep=clock.sleep, on_epoch=lambda m: seen.append(len(m.waits)))
    assert seen == [3, 3]
    assert loader.given == [(epoch, step) for epoch in range(2) for step in range(3)]


def test_an_interrupted_epoch_keeps_what_was_measured() -> None:
    clock = Clock()
    loader = Loader(clock, [[1.0] * 4, [1.0] * 4], interrupt_at=(1, 2))
    meters: list[EpochMeter] = []
    with pytest.raises(KeyboardInterrupt):
        drive(loader, meters, epochs=2, step_seconds=1.0, clock=clock, sleep=clock.sleep)
    assert [len(meter.waits) for meter in meters] == [4, 2]
    assert meters[1].seconds == 4.0


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text("dataset: {index: a}\nloader: {epochs: 90}\nrun: {epochs: 2}\n")
    return path


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Puts a made-up loader in the place of the real one; what it was asked for is noted."""
    noted: dict[str, Any] = {"interrupt_at": None}

    def build_loader(config: Any, path: Path) -> Loader:
        noted["config"] = config
        clock = Clock()
        noted["loader"] = Loader(clock, [[0.0] * 4] * 100, noted["interrupt_at"])
        return noted["loader"]

    monkeypatch.setattr("vidload.config.load.build_loader", build_loader)
    return noted


@dataclass
class Result:
    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Runs `vidload run` in this process."""

    def run_command(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as ended:
            app(["run", *map(str, arguments)])
        return Result(int(ended.value.code or 0), *capfd.readouterr())

    return run_command


def test_the_table_has_a_row_an_epoch(run: Run, config: Path, built: dict[str, Any]) -> None:
    result = run(config)
    assert result.exit_code == 0, result.stderr
    head, names, *rows = result.stdout.splitlines()
    assert head == "2 epochs of 4 batches, 0 s a step"
    assert names.split("  ")[-1].strip() == "frames/s"
    assert [row.split()[:2] for row in rows] == [["0", "4"], ["1", "4"]]
    assert built["loader"].closed


def test_json_is_all_that_stdout_gets(run: Run, config: Path, built: dict[str, Any]) -> None:
    result = run(config, "--json", "--step-seconds", "0.001", "--steps", 3)
    summary = json.loads(result.stdout)
    assert (summary["config"], summary["step_seconds"], summary["interrupted"]) == (str(config), 0.001, False)
    assert [epoch["batches"] for epoch in summary["epochs"]] == [3, 3]
    assert all(epoch["seconds"] >= 0.003 for epoch in summary["epochs"])


def test_the_loader_is_told_how_many_epochs_are_run(run: Run, config: Path, built: dict[str, Any]) -> None:
    run(config)
    assert built["config"].loader.epochs == 2
    run(config, "--epochs", 3)
    assert built["config"].loader.epochs == 3
    assert built["loader"].epoch == 3
    run(config, "--set", "run.epochs=1", "--set", "loader.num_workers=5")
    assert (built["config"].loader.epochs, built["config"].loader.num_workers) == (1, 5)


def test_without_a_number_of_epochs_one_is_run(run: Run, tmp_path: Path, built: dict[str, Any]) -> None:
    (tmp_path / "c.yaml").write_text("dataset: {index: a}")
    assert run(tmp_path / "c.yaml").exit_code == 0
    assert built["loader"].epoch == 1


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_ctrl_c_closes_the_loader_and_prints_what_was_measured(
    run: Run, config: Path, built: dict[str, Any], options: list[str]
) -> None:
    built["interrupt_at"] = (1, 2)
    result = run(config, *options)
    assert result.exit_code == 130
    assert built["loader"].closed
    assert "interrupted in epoch 1 of 2" in result.stderr
    if options:
        summary = json.loads(result.stdout)
        assert summary["interrupted"] is True
        assert [epoch["batches"] for epoch in summary["epochs"]] == [4, 2]
    else:
        assert [row.split()[:2] for row in result.stdout.splitlines()[2:]] == [["0", "4"], ["1", "2"]]


@pytest.mark.parametrize("options", [["--set", "num_workers"], ["--set", "=4"], ["--epochs", "many"], []])
def test_wrong_usage_gives_status_two(run: Run, config: Path, options: list[str]) -> None:
    assert run(*([config, *options] if options else [])).exit_code == 2


def test_real_films_through_the_command(tmp_path: Path, film_file: FilmFolder) -> None:
    vidload.build_index([film_file("h264_bframes")], tmp_path / "films.index", num_workers=0).close()
    path = tmp_path / "films.yaml"
    path.write_text(
        "dataset: {index: films.index, size: 32, clips: {type: uniform, num_frames: 4, clips_per_video: 5}}\n"
        "loader: {batch_size: 2, num_workers: 1}\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "run", path, "--epochs", "2", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    epochs = json.loads(done.stdout)["epochs"]
    assert [(epoch["batches"], epoch["clips"], epoch["frames"]) for epoch in epochs] == [(3, 5, 20)] * 2
    assert all(0 <= epoch["first_wait_s"] <= epoch["seconds"] for epoch in epochs)


HEEDING = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # a shell's background jobs don't


def test_ctrl_c_ends_a_run_on_real_films(tmp_path: Path, film_file: FilmFolder) -> None:
    vidload.build_index([film_file("h264_bframes")], tmp_path / "films.index", num_workers=0).close()
    path = tmp_path / "films.yaml"
    path.write_text("dataset: {index: films.index, size: 32}\nloader: {epochs: 100000, num_workers: 1}\n")
    running = subprocess.Popen(
        [sys.executable, "-u", "-c", f"{HEEDING}; {MAIN}", "run", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stdout is not None
    lines = [running.stdout.readline() for _ in range(4)]  # the head, the columns and two epochs
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to the workers too
    rest, complaints = running.communicate(timeout=60)
    assert running.returncode == 130, complaints
    assert lines[-1].split()[:2] == ["1", "1"]
    assert complaints.splitlines()[-1].startswith("interrupted in epoch ")
    assert "Traceback" not in rest + complaints
