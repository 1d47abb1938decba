"""Random numbers that are a pure function of what they are for.

Counter-based (Philox4x64-10, Salmon et al. 2011, https://doi.org/10.1145/2063384.2063405): the seed is the key; epoch,
sample and purpose are words of the counter, so no two streams overlap and none has to be stored or advanced. Only raw
words are taken from numpy, whose `Generator` streams may change between its versions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from numpy.random import Philox

from vidload.errors import ArgumentError

__all__ = ["check_word", "clip_uniform", "epoch_permutation", "pixel_uniforms", "replacement"]

_CLIP, _ORDER, _REPLACEMENT, _PIXELS = 1, 2, 3, 4
"""Purposes, each with streams of its own."""

_LARGEST = 2**64 - 1


def check_word(name: str, value: int) -> int:
    """Return `value` as a plain int that fits one word of the generator's state.

    Raises:
        ArgumentError: If it isn't an integer from 0 to 2**64 - 1.
    """
    try:
        word = operator.index(value)
    except TypeError:
        word = -1
    if isinstance(value, bool) or not 0 <= word <= _LARGEST:
        raise ArgumentError(f"{name}={value!r}: give an integer from 0 to 2**64 - 1")
    return word


def _stream(seed: int, epoch: int, sample: int, purpose: int) -> Philox:
    # numpy advances the lowest word of the counter; the others stay as they are for 2**64 blocks of four numbers.
    counter = np.array([0, purpose, check_word("sample", sample), check_word("epoch", epoch)], dtype=np.uint64)
    return Philox(counter=counter, key=np.array([check_word("seed", seed), 0], dtype=np.uint64))


def clip_uniform(seed: int, epoch: int, sample: int) -> Callable[[], float]:
    """Open the random numbers of one clip.

    Args:
        seed: The run's seed, 0 to 2**64 - 1.
        epoch: The epoch, from 0.
        sample: The clip's number in the data set, from 0.

    Returns:
        A function that gives the stream's next number at each call: uniform in [0, 1), a multiple of 2**-53.

    Raises:
        ArgumentError: If an argument isn't an integer from 0 to 2**64 - 1.
    """
    raw = _stream(seed, epoch, sample, _CLIP).random_raw

    def uniform() -> float:
        return float((int(raw()) >> 11) * 2.0**-53)

    return uniform


def pixel_uniforms(seed: int, epoch: int, samples: Sequence[int], k: int) -> npt.NDArray[np.float64]:
    """What is random in clips' pixels, whatever was random in the choice of their frames and placement.

    Args:
        seed: The run's seed, 0 to 2**64 - 1.
        epoch: The epoch, from 0.
        samples: B clips' numbers in the data set.
        k: How many numbers for each clip; the first ones are the same whatever it is.

    Returns:
        float64[B, k], uniform in [0, 1).

    Raises:
        ArgumentError: If an argument isn't an integer from 0 to 2**64 - 1.
    """
    words = np.empty((len(samples), check_word("k", k)), np.uint64)
    for row, sample in enumerate(samples):
        words[row] = _stream(seed, epoch, sample, _PIXELS).random_raw(k)
    numbers: npt.NDArray[np.float64] = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return numbers


def epoch_permutation(seed: int, epoch: int, n: int) -> npt.NDArray[np.int64]:
    """Shuffle the numbers 0 to `n` - 1 for one epoch.

    Returns:
        int64[n], every number once; the same for the same arguments, on every machine.

    Raises:
        ArgumentError: If an argument isn't an integer from 0 to 2**64 - 1.
    """
    keys = np.asarray(_stream(seed, epoch, 0, _ORDER).random_raw(check_word("n", n)))
    return np.argsort(keys, kind="stable").astype(np.int64, copy=False)


def replacement(seed: int, epoch: int, sample: int, attempt: int, n: int) -> int:
    """The sample that takes the place of one that can't be loaded: any of them, as likely, but not itself.

    Args:
        seed: The run's seed.
        epoch: The epoch.
        sample: The sample that can't be loaded, 0 to n - 1.
        attempt: How many replacements failed before, from 0.
        n: How many samples there are, at least 2.

    Returns:
        A number from 0 to n - 1 other than `sample`.
    """
    word = int(_stream(seed, epoch, sample, _REPLACEMENT).random_raw(attempt + 1)[-1])
    return (sample + 1 + word % (n - 1)) % n
