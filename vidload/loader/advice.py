"""One sentence on what holds a loader back, from its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vidload.loader.machine import usable_cores

__all__ = ["advise"]

_STARVED = 0.03
"""Share of the consumer's time below which waiting isn't worth a word."""

_IDLE = 0.4
"""Share of the workers' time from which they count as idle."""

_LEADING = 0.25
"""Share of packets before the first wanted frame from which shorter GOPs are worth it."""

_FEWEST = 3


def advise(stats: Mapping[str, Any], cores: int | None = None) -> str:
    """What would make it faster, or that nothing would.

    Args:
        stats: As `vidload.VideoLoader.stats` gives them.
        cores: How many this process may use; asked for by default.
    """
    stages, workers = stats["stages"], stats["num_workers"]
    if stages.get("wait", {"count": 0})["count"] < _FEWEST:
        return "too few batches were taken to tell anything"
    if workers == 0:
        return "num_workers=0 loads in your own thread, for debugging: give it workers to load ahead"
    starved, idle = stats["starved"], stats["backpressure"]
    if starved < _STARVED:
        fewer = f"; workers are idle for {idle:.0%} of the time, so fewer would do" if idle > _IDLE else ""
        return f"training waits for data for {starved:.1%} of its time: the loader keeps up{fewer}"
    begin = f"training waits for data for {starved:.0%} of its time; "
    if idle > _IDLE:
        return (
            f"{begin}workers are idle for {idle:.0%} of theirs: a larger prefetch_batches, or in_order=False where "
            "some clips take long, would help"
        )
    totals = {kind: stage["total"] for kind, stage in stages.items() if kind != "wait"}
    kind = max(totals, key=lambda name: totals[name])
    usable = usable_cores() if cores is None else cores
    more = (
        f"more workers help ({workers} on {usable} cores)"
        if workers < usable
        else f"all {usable} cores are at work: a backend on the GPU, or fewer frames a clip, would help"
    )
    return begin + {
        "read": "reading-bound: the files' storage is slow; a faster one, or more workers that wait for it, help",
        "decode": f"decoding-bound: {more}{_gops(stats)}",
        "convert": f"bound by scaling and colours: {more}; wire='yuv420' leaves colours to the device",
        "sample": f"bound by the data set's own code: {more}, and a faster __getitem__ does",
        "collate": "bound by collate_fn: let __getitem__ do that work, or make smaller batches",
        "transfer": "bound by the copies to the device: wire='yuv420' halves them",
    }.get(kind, f"most time goes into {kind}")


def _gops(stats: Mapping[str, Any]) -> str:
    if not stats["packets"] or stats["leading"] / stats["packets"] < _LEADING:
        return ""
    share = stats["leading"] / stats["packets"]
    return (
        f"; {share:.0%} of packets decoded are before the first wanted frame: shorter GOPs help, see vidload transcode"
    )
