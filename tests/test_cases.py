"""Films that break loaders, read by every backend in every way: see tests/cases/README.md and docs/video.md."""

from __future__ import annotations

from typing import Any

import pytest

from tests.backends import NEEDS_TORCHCODEC
from tests.decode.dali import needs_dali
from tests.reading_cases import CASES, documented, outcome

_BACKENDS = [
    "pyav",
    "decord",
    pytest.param("torchcodec", marks=NEEDS_TORCHCODEC),
    pytest.param("dali", marks=needs_dali),
]


@pytest.mark.parametrize("backend", _BACKENDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_every_frame_is_right_or_an_error(case: dict[str, Any], backend: str) -> None:
    assert outcome(case, backend) == documented()[case["name"], backend]
