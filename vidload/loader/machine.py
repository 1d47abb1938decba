"""What of the machine this process may use: its container's share, not the machine's numbers."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["available_memory", "cpu_quota", "memory_limit", "usable_cores"]

CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")


def cpu_quota() -> float | None:
    """Processors' worth of time that the container may use; None without a limit."""
    quota = _read(CGROUP / "cpu.max").split()
    if len(quota) != 2 or quota[0] == "max":
        return None
    return int(quota[0]) / int(quota[1])


def usable_cores() -> int:
    """Processors that this process may use, at least 1."""
    quota = cpu_quota()
    allowed = len(os.sched_getaffinity(0))
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def memory_limit() -> int | None:
    """Bytes that the container may use; None without a limit."""
    limit = _read(CGROUP / "memory.max").strip()
    return int(limit) if limit.isdigit() else None


def available_memory() -> int:
    """Bytes that can be had: what the machine has free, or what is left of the container's limit."""
    lines = dict(line.split(":", 1) for line in _read(MEMINFO).splitlines() if ":" in line)
    free = int(lines.get("MemAvailable", "1048576 kB").split()[0]) * 1024
    limit, used = memory_limit(), _read(CGROUP / "memory.current").strip()
    return free if limit is None else min(free, max(0, limit - (int(used) if used.isdigit() else 0)))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
