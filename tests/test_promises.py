"""docs/reliability.md and docs/security.md name the test that holds each promise: they have to be there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("page", "least"), [("reliability.md", 20), ("security.md", 6)])
def test_each_promise_names_tests_that_exist(page: str, least: int) -> None:
    rows = re.findall(r"^\| (?!promise|what a file|-)(.+) \| (.+) \|$", (_ROOT / "docs" / page).read_text(), re.M)
    assert len(rows) > least
    for promise, held_by in rows:
        found = 0
        for file, names in re.findall(r"`([\w/]+\.py)`(?:: ((?:`\w+`(?:, )?)+))?", held_by):
            path = _ROOT / (file if "/" in file else f"tests/loader/{file}")
            assert path.is_file(), f"{promise}: {file}"
            found += 1
            for name in re.findall(r"`(\w+)`", names):
                assert re.search(rf"def {name}\(|class {name}:", path.read_text()), f"{promise}: {name} in {file}"
        assert found, promise
