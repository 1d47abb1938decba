"""What holds a loader back, from its figures."""

from __future__ import annotations

from typing import Any

import pytest

from vidload.loader.advice import advise


def stats(starved: float, idle: float, workers: int = 2, **totals: float) -> dict[str, Any]:
    stages = {kind: {"count": 50, "total": total} for kind, total in ({"wait": 5.0} | totals).items()}
    shares = {"starved": starved, "backpressure": idle, "packets": 100, "leading": 10}
    return {"stages": stages, "num_workers": workers, **shares}


@pytest.mark.parametrize(
    ("found", "cores", "told"),
    [
        (stats(0.01, 0.1, decode=9), 8, "waits for data for 1.0% of its time: the loader keeps up"),
        (stats(0.0, 0.7, decode=9), 8, "keeps up; workers are idle for 70% of the time, so fewer would do"),
        (stats(0.4, 0.0, decode=9, read=1), 8, "40% of its time; decoding-bound: more workers help (2 on 8 cores)"),
        (stats(0.4, 0.0, decode=9), 2, "decoding-bound: all 2 cores are at work: a backend on the GPU"),
        (stats(0.4, 0.0, decode=9) | {"leading": 38}, 8, "; 38% of packets decoded are before the first wanted frame"),
        (stats(0.4, 0.0, decode=1, read=9), 8, "reading-bound"),
        (stats(0.4, 0.0, decode=1, convert=9), 8, "wire='yuv420' leaves colours to the device"),
        (stats(0.4, 0.0, sample=9, collate=1), 8, "bound by the data set's own code: more workers help"),
        (stats(0.4, 0.0, sample=1, collate=9), 8, "bound by collate_fn"),
        (stats(0.4, 0.0, decode=1, transfer=9), 8, "bound by the copies to the device"),
        (stats(0.4, 0.8, decode=9), 8, "workers are idle for 80% of theirs: a larger prefetch_batches"),
        (stats(0.4, 0.0, workers=0, decode=9), 8, "num_workers=0 loads in your own thread"),
        (stats(0.4, 0.0, decode=9) | {"stages": {"wait": {"count": 2, "total": 1.0}}}, 8, "too few batches"),
        (stats(0.4, 0.0) | {"stages": {}}, 8, "too few batches"),
    ],
)
def test_the_sentence_names_what_would_help(found: dict[str, Any], cores: int, told: str) -> None:
    assert told in advise(found, cores)


def test_short_gops_are_advised_only_where_decoding_is_the_limit() -> None:
    assert "GOPs" not in advise(stats(0.4, 0.0, decode=1, read=9) | {"leading": 90}, 8)
