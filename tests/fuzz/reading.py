"""Reading edited films in a process of its own, and what may come of it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

from tests.fuzz.edits import Edit, apply
from tests.reading_cases import FOLDER
from vidload.index.processes import DIED, Processes

__all__ = ["SECONDS", "Reader"]

SECONDS = 30.0
"""Within which a film of a few kilobytes has to be read or refused."""
MEGABYTES = 1500
"""Of memory that reading it may take, with the libraries."""


class Reader:
    """Reads edited films; a context manager.

    Args:
        folder: Where edited films are written; one that fails is kept there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes = Processes("tests.fuzz.worker", 1, SECONDS)
        self.outcomes: Counter[str] = Counter()
        self.slowest = 0.0
        self.largest = 0

    def __enter__(self) -> Reader:
        self._processes.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.__exit__()

    def read(self, name: str, changes: list[Edit]) -> None:
        """Read a film of tests/cases/ with changes.

        Raises:
            AssertionError: If the process crashed or hung, an error isn't vidload's own, or took too much.
        """
        self.check(apply((FOLDER / name).read_bytes(), changes), Path(name).suffix)

    def check(self, data: bytes, suffix: str) -> None:
        """Read a file of these bytes; as `read`."""
        path = self._folder / f"{hashlib.sha256(data).hexdigest()[:16]}{suffix}"
        path.write_bytes(data)
        kind, content = self._processes.submit([str(path)]).result()
        assert kind != DIED, f"{path}: the process {content.decode()}"
        found = json.loads(content)
        assert not found["outcome"].startswith("not vidload's own"), f"{path}: {found['outcome']}"
        assert found["peak_mb"] <= MEGABYTES, f"{path}: {found['peak_mb']} MB"
        self.outcomes[found["outcome"]] += 1
        self.slowest, self.largest = max(self.slowest, found["seconds"]), max(self.largest, found["peak_mb"])
        path.unlink()
