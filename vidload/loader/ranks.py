"""Which of several processes that train together this one is."""

from __future__ import annotations

import operator
import os
from typing import NamedTuple

import torch.distributed

from vidload.errors import ArgumentError

__all__ = ["Ranks", "find_ranks"]


class Ranks(NamedTuple):
    """This process's rank, from 0, and how many there are."""

    rank: int
    world_size: int


def find_ranks(rank: int | None, world_size: int | None) -> Ranks:
    """The ranks given, else those of torch.distributed if it is initialised, else torchrun's, else a single one.

    Raises:
        ArgumentError: If only one of the two is given, or they are no numbers that fit each other.
    """
    if (rank is None) != (world_size is None):
        raise ArgumentError(f"rank={rank!r}, world_size={world_size!r}: give both, or none")
    if rank is not None and world_size is not None:
        return _checked(rank, world_size, "rank", "world_size")
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return Ranks(torch.distributed.get_rank(), torch.distributed.get_world_size())
    words = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if words[0] is None or words[1] is None:
        return Ranks(0, 1)
    try:
        numbers = int(words[0]), int(words[1])
    except ValueError as error:
        raise ArgumentError(f"RANK={words[0]!r}, WORLD_SIZE={words[1]!r} in the environment are no numbers") from error
    return _checked(*numbers, "RANK", "WORLD_SIZE")


def _checked(rank: int, world_size: int, *names: str) -> Ranks:
    try:
        ranks = Ranks(operator.index(rank), operator.index(world_size))
    except TypeError:
        ranks = Ranks(-1, 0)
    if isinstance(rank, bool) or isinstance(world_size, bool) or not 0 <= ranks.rank < ranks.world_size:
        raise ArgumentError(
            f"{names[0]}={rank!r}, {names[1]}={world_size!r}: give the number of ranks, and which of them this is, "
            "counted from 0"
        )
    return ranks
