"""A stretch of time that a loader spent on something, for timelines."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Span"]


class Span(NamedTuple):
    """One stretch.

    Attributes:
        kind: ``"read"`` (a clip's packets), ``"decode"`` (its frames), ``"convert"`` (scaling and colours of these; in
            truth between the frames, here after them), ``"sample"`` (any other data set's item), ``"collate"``,
            ``"transfer"`` (a batch to the device), or ``"wait"`` (the consumer, for a batch).
        worker: Number of the worker; -1 is the loader's own process.
        epoch: The epoch it was for.
        step: The batch within the epoch.
        start: Seconds of `time.monotonic`, one clock for all processes of a machine.
        end: Likewise.
    """

    kind: Literal["read", "decode", "convert", "sample", "collate", "transfer", "wait"]
    worker: int
    epoch: int
    step: int
    start: float
    end: float
