"""Boards of running loaders, as another process sees them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from vidload.cli.app import app
from vidload.loader.board import BOARD_NAME, Board, read_board
from vidload.report.watch import find_loaders

TRAINING = """
import sys
from vidload import VideoLoader
with VideoLoader(list(range(40)), 4, num_workers=1, worker_kind="thread", collate_fn=list) as loader:
    iterator = iter(loader)
    print(next(iterator), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def training() -> Any:
    process = subprocess.Popen(
        [sys.executable, "-c", TRAINING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    yield process
    process.communicate("")
    assert process.returncode == 0


def test_another_process_sees_a_running_loader(training: Any) -> None:
    (found,) = find_loaders([training.pid])
    assert found["pid"] == training.pid
    assert found["num_workers"] == 1
    assert found["samples"] >= 0
    assert "VideoLoader" in found["command"]
    assert training.pid in {board["pid"] for board in find_loaders()}
    result = CliRunner().invoke(app, ["top", "--once", str(training.pid)])
    assert result.exit_code == 0
    assert str(training.pid) in result.stdout
    told = json.loads(CliRunner().invoke(app, ["top", "--once", "--json", str(training.pid)]).stdout)
    assert told[0]["pid"] == training.pid


def test_when_nothing_runs_that_is_said() -> None:
    assert find_loaders([2**22 - 1]) == []
    assert "no loader is running" in CliRunner().invoke(app, ["top", "--once", str(2**22 - 1)]).stdout


def test_a_board_is_written_once_a_second_and_taken_down() -> None:
    now, written = [10.0], [0]

    def figures() -> dict[str, Any]:
        written[0] += 1
        return {"number": written[0]}

    board = Board(figures, clock=lambda: now[0])
    for moment in (10.0, 10.5, 10.99, 11.0, 11.5, 12.1):
        now[0] = moment
        board.update()
    assert written[0] == 3
    links = [os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.exists()]
    assert sum(link.startswith(f"/memfd:{BOARD_NAME}") for link in links) == 1
    board.close()
    now[0] = 100.0
    board.update()
    assert written[0] == 3


@pytest.mark.parametrize(
    "data", [b"", bytes(100), (50).to_bytes(8, "little") + b'{"pid": 1', (4).to_bytes(8, "little") + b"[1]\n"]
)
def test_what_is_half_written_is_nothing(data: bytes) -> None:
    assert read_board(data) is None
