"""Looking at running loaders from another process: the boards that they keep in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vidload.loader.board import BOARD_NAME, read_board

__all__ = ["find_loaders"]

PROC = Path("/proc")


def find_loaders(pids: Iterable[int] | None = None) -> list[dict[str, Any]]:
    """The figures of all running loaders that this user may look at, by process and loader.

    Args:
        pids: Processes to look at; all by default.

    Returns:
        What `VideoLoader.stats` gives, with ``pid``, ``command`` and ``time``, seconds since 1970.
    """
    wanted = None if pids is None else set(pids)
    found = []
    for process in sorted((path for path in PROC.iterdir() if path.name.isdigit()), key=lambda path: int(path.name)):
        if wanted is not None and int(process.name) not in wanted:
            continue
        for board in _boards_of(process):
            # A child that was forked has its parent's board open, too.
            if board["pid"] == int(process.name):
                found.append(board | {"command": _command_of(process)})
    return found


def _boards_of(process: Path) -> Iterable[dict[str, Any]]:
    try:
        files = sorted((process / "fd").iterdir(), key=lambda path: int(path.name))
    except OSError:  # another user's, or it has ended
        return
    for file in files:
        try:
            if os.readlink(file).startswith(f"/memfd:{BOARD_NAME}"):
                board = read_board(file.read_bytes())
                if board is not None:
                    yield board
        except OSError:
            continue


def _command_of(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
