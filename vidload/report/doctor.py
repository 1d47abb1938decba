"""What of the machine vidload can use: one check a line, each in a process of its own where a library may crash."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Literal

from vidload.errors import ArgumentError
from vidload.report import checks, hardware

__all__ = ["CHECKS", "Check", "Finding", "diagnose", "is_well"]

Status = Literal["ok", "missing", "broken"]

_APART = "from vidload.report.doctor import _main; _main({name!r})"

TIMEOUT = 60.0
"""Seconds that a check may take: a driver that hangs is broken."""


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        name: The check's.
        status: ``"ok"``, ``"missing"`` or ``"broken"``.
        detail: What there is.
        fix: What to do about it; empty where there is nothing to do.
    """

    name: str
    status: Status
    detail: str
    fix: str = ""


@dataclass(frozen=True)
class Check:
    """One of `CHECKS`.

    Attributes:
        run: Gives status, detail and fix.
        needed: Whether vidload works without; what is asked for by ``--require`` is needed, too.
        risky: Whether it loads native code, and so runs in a process of its own.
    """

    run: Callable[[], checks.Result]
    needed: bool = False
    risky: bool = False


CHECKS: dict[str, Check] = {
    "python": Check(checks.python, needed=True),
    "vidload": Check(checks.package, needed=True),
    "torch": Check(checks.torch, needed=True, risky=True),
    "pyav": Check(checks.pyav, needed=True, risky=True),
    "decord": Check(checks.decord, needed=True, risky=True),
    "torchcodec": Check(checks.torchcodec, risky=True),
    "dali": Check(checks.dali, risky=True),
    "cuda": Check(hardware.cuda, risky=True),
    "nvdec": Check(hardware.nvdec, risky=True),
    "pinning": Check(hardware.pinning, risky=True),
    "memfd": Check(hardware.memfd, needed=True),
    "shm": Check(hardware.shm),
    "files": Check(hardware.files, needed=True),
    "cores": Check(hardware.cores),
    "memory": Check(hardware.memory),
}
"""In the order in which they are shown."""


def diagnose(names: Sequence[str] = tuple(CHECKS)) -> list[Finding]:
    """Run checks, several at a time.

    Raises:
        ArgumentError: If there is no check of a name.
    """
    check_names(names)
    with ThreadPoolExecutor(max_workers=4) as pool:
        return list(pool.map(_find, names))


def check_names(names: Sequence[str]) -> None:
    """Refuse names of checks that don't exist.

    Raises:
        ArgumentError: If there is one.
    """
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        raise ArgumentError(f"{', '.join(unknown)}: no such check; there are {', '.join(CHECKS)}")


def is_well(findings: Sequence[Finding], required: Sequence[str] = ()) -> bool:
    """Whether everything works that vidload needs, or that is required beyond that."""
    return all(
        finding.status == "ok" for finding in findings if CHECKS[finding.name].needed or finding.name in required
    )


def _find(name: str) -> Finding:
    if CHECKS[name].risky:
        return _find_apart(name)
    return _run(name)


def _run(name: str) -> Finding:
    try:
        return Finding(name, *CHECKS[name].run())
    except Exception as error:
        return Finding(name, "broken", f"{type(error).__name__}: {error}", "this is what it says; see docs/doctor.md")


def _find_apart(name: str) -> Finding:
    command = [sys.executable, "-c", _APART.format(name=name)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return Finding(name, "broken", f"it didn't come to an end in {TIMEOUT:g} s", "its driver or library hangs")
    try:
        return Finding(**json.loads(done.stdout.splitlines()[-1]))
    except (ValueError, IndexError, TypeError):
        how = f"status {done.returncode}" if done.returncode >= 0 else signal.Signals(-done.returncode).name
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return Finding(name, "broken", f"it ended by {how}: {last}", "install it again, in a version for this machine")


def _main(name: str) -> None:
    """Run one check in this process, and print what it finds as a last line of JSON."""
    print("\n" + json.dumps(asdict(_run(name))))
