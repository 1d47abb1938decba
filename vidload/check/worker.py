"""The process that checks films for `vidload.check.films`; asked by ``[index, row]``, it answers by its findings."""

from __future__ import annotations

import json
from typing import Any

from vidload.check.film import check_film
from vidload.index.processes import Answer, serve
from vidload.index.reader import VideoIndex

__all__ = ["FINDINGS", "main"]

FINDINGS = b"f"
"""A list of findings follows, each a list, as JSON."""


def _answer(request: list[Any]) -> Answer:
    path, row = request
    with VideoIndex(path) as index:
        return FINDINGS, json.dumps([list(finding) for finding in check_film(index[row])]).encode()


def main() -> None:
    """Answer every line of standard input."""
    serve(_answer)
