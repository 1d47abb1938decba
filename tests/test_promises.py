"""docs/reliability.md names the test that holds each promise: they have to be there."""

from __future__ import annotations

import re
from pathlib import Path

_ROOT = Path(__file__).parents[1]


def test_each_promise_names_tests_that_exist() -> None:
    rows = re.findall(r"^\| (?!promise|-)(.+) \| (.+) \|$", (_ROOT / "docs" / "reliability.md").read_text(), re.M)
    assert len(rows) > 20
    for promise, held_by in rows:
        found = 0
        for file, names in re.findall(r"`([\w/]+\.py)`(?:: ((?:`\w+`(?:, )?)+))?", held_by):
            path = _ROOT / (file if "/" in file else f"tests/loader/{file}")
            assert path.is_file(), f"{promise}: {file}"
            found += 1
            for name in re.findall(r"`(\w+)`", names):
                assert f"def {name}(" in path.read_text(), f"{promise}: {name} in {file}"
        assert found, promise
