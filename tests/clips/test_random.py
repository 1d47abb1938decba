"""The random numbers are the same everywhere, and no two streams are alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidload.clips.random import clip_uniform, epoch_permutation, pixel_uniforms
from vidload.errors import ArgumentError

WORDS = st.integers(0, 2**64 - 1)


def draw(seed: int, epoch: int, sample: int, count: int = 4) -> list[float]:
    uniform = clip_uniform(seed, epoch, sample)
    return [uniform() for _ in range(count)]


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x64-10 by its definition (Salmon et al. 2011), without numpy."""
    mask = 2**64 - 1
    c, k = list(counter), list(key)
    for _ in range(10):
        left, right = c[0] * 0xD2E7470EE14C6C93, c[2] * 0xCA5A826395121157
        c = [right >> 64 ^ c[1] ^ k[0], right & mask, left >> 64 ^ c[3] ^ k[1], left & mask]
        k = [(k[0] + 0x9E3779B97F4A7C15) & mask, (k[1] + 0xBB67AE8584CAA73B) & mask]
    return c


@given(WORDS, WORDS, WORDS)
def test_numbers_are_those_of_philox_by_its_definition(seed: int, epoch: int, sample: int) -> None:
    words = philox([1, 1, sample, epoch], [seed, 0]) + philox([2, 1, sample, epoch], [seed, 0])
    assert draw(seed, epoch, sample, 8) == [(word >> 11) / 2**53 for word in words]


def test_numbers_never_change_between_versions() -> None:
    assert draw(0, 0, 0, 3) == [0.21185954403345741, 0.21554582036140135, 0.7558994834676926]
    assert epoch_permutation(7, 3, 10).tolist() == [4, 8, 6, 9, 5, 2, 7, 3, 1, 0]


def test_numbers_lie_in_the_unit_interval_and_are_uniform() -> None:
    numbers = np.array(draw(1, 2, 3, 20_000))
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    # Chi-squared with 19 degrees of freedom is above 43.8 once in a thousand times; the stream is fixed.
    assert ((counts - 1000) ** 2 / 1000).sum() < 43.8


def test_each_argument_opens_another_stream() -> None:
    streams = [draw(*arguments) for arguments in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (2**64 - 1, 0, 0)]]
    assert len({tuple(stream) for stream in streams}) == len(streams)


def test_neighbouring_clips_draw_independent_numbers() -> None:
    first = np.array([draw(0, 0, sample, 1)[0] for sample in range(5000)])
    correlation = np.corrcoef(first[:-1], first[1:])[0, 1]
    assert abs(correlation) < 4 / np.sqrt(5000)


def test_order_and_clips_draw_from_different_streams() -> None:
    numbers = draw(5, 6, 0, 8)
    assert np.argsort(numbers, kind="stable").tolist() != epoch_permutation(5, 6, 8).tolist()


@given(WORDS, WORDS, st.integers(0, 300))
def test_a_permutation_has_every_number_once(seed: int, epoch: int, n: int) -> None:
    order = epoch_permutation(seed, epoch, n)
    assert order.dtype == np.int64
    assert sorted(order.tolist()) == list(range(n))


def test_each_place_of_a_permutation_is_as_likely() -> None:
    orders = np.array([epoch_permutation(0, epoch, 5) for epoch in range(4000)])
    for place in range(5):
        counts = np.bincount(orders[:, place], minlength=5)
        assert ((counts - 800) ** 2 / 800).sum() < 18.5  # chi-squared, 4 degrees of freedom, one in a thousand


@pytest.mark.parametrize("value", [-1, 2**64, 0.5, "0", None, True])
@pytest.mark.parametrize("name", ["seed", "epoch", "sample"])
def test_words_outside_64_bits_are_refused_by_name(name: str, value: object) -> None:
    arguments = {"seed": 0, "epoch": 0, "sample": 0, name: value}
    with pytest.raises(ArgumentError, match=name):
        clip_uniform(**arguments)  # type: ignore[arg-type]


def test_numpy_integers_are_integers() -> None:
    number = clip_uniform(np.int64(3), np.uint64(4), np.int32(5))()  # type: ignore[arg-type]
    assert number == draw(3, 4, 5, 1)[0]
    assert type(number) is float


def test_pixels_draw_numbers_of_their_own() -> None:
    numbers = pixel_uniforms(3, 4, [5, 6], 5)
    assert (numbers.shape, numbers.dtype) == ((2, 5), np.float64)
    for row, sample in enumerate((5, 6)):
        words = philox([1, 4, sample, 4], [3, 0]) + philox([2, 4, sample, 4], [3, 0])
        assert numbers[row].tolist() == [(word >> 11) / 2**53 for word in words[:5]]
        assert not set(numbers[row]) & set(draw(3, 4, sample, 64))
        assert np.array_equal(pixel_uniforms(3, 4, [sample], 2)[0], numbers[row, :2])
    assert pixel_uniforms(0, 0, [], 5).shape == (0, 5)
    assert pixel_uniforms(0, 0, [1, 2], 0).shape == (2, 0)
