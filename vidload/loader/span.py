"""A stretch of time that a loader spent on something, for timelines."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Span"]


class Span(NamedTuple):
    """One stretch.

    Attributes:
        kind: ``"read"`` (a clip's packets), ``"decode"`` (its frames), ``"sample"`` (any other data set's item),
            ``"collate"``, or ``"wait"`` (the consumer, for a batch).
        worker: Number of the worker; -1 is the consumer.
        epoch: The epoch it was for.
        step: The batch within the epoch.
        start: Seconds of `time.monotonic`, one clock for all processes of a machine.
        end: Likewise.
    """

    kind: Literal["read", "decode", "sample", "collate", "wait"]
    worker: int
    epoch: int
    step: int
    start: float
    end: float
