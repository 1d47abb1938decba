"""What tests see of processes and open files, from /proc."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def children(parent: int | None = None) -> set[int]:
    """Process ids of a process's children; zombies too."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it is gone
            continue
        if int(fields[1]) == (parent or os.getpid()):
            found.add(int(stat.parent.name))
    return found


def open_files() -> list[str]:
    """Descriptors of this process and what they are."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
        except OSError:  # the one of the listing itself
            continue
    return sorted(found)


def loader_threads() -> list[str]:
    """Names of vidload's threads that are alive."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("vidload")]


def has_ended(process: int, seconds: float) -> bool:
    """Whether a process ends within some seconds."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def run_python(
    *arguments: str | Path, script: str | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run Python from the root of the repository; a script is fed to its standard input."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        [sys.executable, *arguments],
        input=script,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
        check=False,
    )
