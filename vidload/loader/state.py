"""A loader's state: plain values that JSON can hold, and what has to be equal for going on from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vidload.errors import StateError
from vidload.loader.pipeline import Position

__all__ = ["check_state", "make_state"]

_VERSION = 1

_MEANINGS = {
    "seed": "the seed",
    "shuffle": "shuffle",
    "drop_last": "drop_last",
    "global_batch_size": "the batch size times the number of ranks",
    "num_samples": "the number of samples",
    "index": "the index (its fingerprint)",
    "sampler": "whether a sampler gives the order",
    "in_order": "in_order",
    "world_size": "the number of ranks (out of order, each has other batches left)",
}


def make_state(position: Position, identity: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a consumer at a position.

    Args:
        position: Where it is.
        identity: What a loader must have in common with this one to go on from it.
    """
    return {
        "version": _VERSION,
        "epoch": position.epoch,
        "step": position.taken,
        "done": sorted(position.done),
        **identity,
    }


def check_state(state: Mapping[str, Any], identity: Mapping[str, Any]) -> tuple[int, int, frozenset[int]]:
    """(epoch, step, steps done out of order) of a state.

    Raises:
        StateError: If it is none, is of another version, or is of a loader whose batches were others.
    """
    if not isinstance(state, Mapping) or "version" not in state:
        raise StateError(f"this is no state of a VideoLoader: {state!r}")
    if state["version"] != _VERSION:
        raise StateError(f"the state has format version {state['version']!r}; this vidload reads version {_VERSION}")
    missing = [name for name in ("epoch", "step", "done", *identity) if name not in state]
    if missing:
        raise StateError(f"the state lacks {', '.join(missing)}: it isn't one that state_dict() gave")
    differences = [
        f"{_MEANINGS[name]} was {state[name]!r} and is {value!r}"
        for name, value in identity.items()
        if state[name] != value and not (name == "world_size" and identity["in_order"])
    ]
    if differences:
        raise StateError(
            f"the state is of a loader with other batches: {'; '.join(differences)}. Make the loader as it was, or "
            "start without the state"
        )
    epoch, step, done = state["epoch"], state["step"], state["done"]
    numbers = [epoch, step, *(done if isinstance(done, list | tuple) else [None])]
    if not all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in numbers):
        raise StateError(f"the state's epoch, step and done aren't numbers from 0 on: {dict(state)!r}")
    if len(set(done)) != (0 if identity["in_order"] else step):
        raise StateError(f"the state's step={step} and done={done!r} contradict each other")
    return epoch, step, frozenset(done)
