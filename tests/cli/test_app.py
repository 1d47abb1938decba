"""The command itself: versions, help, errors and their exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import vidload

MAIN = "from vidload.cli.app import main; main()"


def vidload_command(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", MAIN, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_version() -> None:
    assert vidload_command("--version").stdout == f"vidload {vidload.__version__}\n"


def test_the_command_starts_without_what_it_does_not_need() -> None:
    code = (
        "import sys, vidload.cli.app; "
        "print([m for m in ('torch', 'av', 'decord', 'pyarrow', 'pydantic', 'numpy') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_help_lists_the_commands() -> None:
    listed = vidload_command("--help").stdout
    for name in ("index", "inspect", "run", "config"):
        assert f"\n  {name} " in listed


def test_errors_are_a_line_each_and_status_one(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("dataset: {index: a}\nloader: {num_worker: 4, epochs: x}\n")
    done = vidload_command("run", config)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        f"error: {config}:2: loader.epochs: 'x': give a whole number",
        f"error: {config}:2: loader.num_worker: no such key; did you mean num_workers?",
    ]


def test_a_traceback_is_shown_on_demand(tmp_path: Path) -> None:
    done = vidload_command("run", tmp_path / "gone.yaml", VIDLOAD_TRACEBACK="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "ConfigError" in done.stderr


@pytest.mark.parametrize("arguments", [["--no-such-option"], ["no-such-command"], ["run"]])
def test_wrong_usage_gives_status_two(arguments: list[str]) -> None:
    done = vidload_command(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
