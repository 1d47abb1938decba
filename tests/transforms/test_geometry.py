"""Placements are those of torchvision's transforms, by its formulas, and never leave the picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidload.clips.random import clip_uniform
from vidload.errors import ArgumentError
from vidload.transforms.geometry import (
    MAX_SIZE,
    CenterCrop,
    Geometry,
    NativeSize,
    Placement,
    RandomResizedCrop,
    Resize,
    make_geometry,
)

SIDES = st.integers(1, 3000)
OUTPUTS = st.integers(1, 512)
UNIFORM = st.floats(0, 1, exclude_max=True)


def numbers(*values: float) -> Callable[[], float]:
    """A stream that gives just these numbers."""
    stream: Iterator[float] = iter(values)
    return lambda: next(stream)


def assert_within(placement: Placement, width: int, height: int) -> None:
    x, y, crop_width, crop_height = placement.crop
    assert crop_width >= 1
    assert crop_height >= 1
    assert 0 <= x <= width - crop_width
    assert 0 <= y <= height - crop_height
    for start, length, limit in ((x, crop_width, width), (y, crop_height, height)):
        assert length == limit or (start % 2 == 0 and length % 2 == 0)
    x, y, out_width, out_height = placement.window
    assert 0 <= x <= placement.scaled[0] - out_width
    assert 0 <= y <= placement.scaled[1] - out_height


def geometries() -> st.SearchStrategy[Geometry]:
    sizes = OUTPUTS | st.tuples(OUTPUTS, OUTPUTS)
    ends = st.tuples(st.floats(0.001, 1), st.floats(0.001, 1)).map(sorted).map(tuple)
    ratios = st.tuples(st.floats(0.05, 20), st.floats(0.05, 20)).map(sorted).map(tuple)
    return st.one_of(
        st.just(NativeSize()),
        st.builds(Resize, sizes),
        st.builds(CenterCrop, sizes, st.none() | st.integers(512, 700), st.floats(0, 1)),
        st.builds(RandomResizedCrop, sizes, ends, ratios, st.floats(0, 1)),
    )


@given(geometries(), SIDES | st.integers(1, 9), SIDES | st.integers(1, 9), st.integers(0, 10**6))
def test_no_placement_leaves_the_picture(geometry: Geometry, width: int, height: int, clip: int) -> None:
    placement = geometry.plan(width, height, clip_uniform(0, 0, clip))
    assert_within(placement, width, height)
    if geometry.output_size is None:
        assert placement.window == (0, 0, width, height)
    else:
        assert placement.window[2:] == geometry.output_size[::-1]


@given(SIDES, SIDES, OUTPUTS, st.integers(0, 200))
def test_center_crop_is_torchvisions_resize_and_center_crop(width: int, height: int, size: int, more: int) -> None:
    resize = size + more
    placement = CenterCrop(size, resize=resize).plan(width, height, numbers(0.5))
    # torchvision.transforms.Resize(resize): the short side exact, int() of the long one.
    short, long = min(width, height), max(width, height)
    new_long = int(resize * long / short)
    scaled = (resize, new_long) if width <= height else (new_long, resize)
    if new_long > MAX_SIZE:
        return
    assert placement.scaled == scaled
    # torchvision.transforms.CenterCrop(size): int(round((length - size) / 2.0)).
    left, top = round((scaled[0] - size) / 2.0), round((scaled[1] - size) / 2.0)
    assert placement == Placement((0, 0, width, height), scaled, (left, top, size, size), False)


@pytest.mark.parametrize(
    ("picture", "scaled", "corner"),
    [
        ((1920, 1080), (455, 256), (116, 16)),
        ((1280, 534), (613, 256), (194, 16)),
        ((640, 360), (455, 256), (116, 16)),
        ((480, 854), (256, 455), (16, 116)),
    ],
)
def test_the_usual_evaluation_crop(picture: tuple[int, int], scaled: tuple[int, int], corner: tuple[int, int]) -> None:
    placement = CenterCrop(224, resize=256).plan(*picture, numbers(0.5))
    assert (placement.scaled, placement.window) == (scaled, (*corner, 224, 224))


@given(SIDES, SIDES, OUTPUTS, OUTPUTS)
def test_center_crop_without_resize_just_covers_the_size(width: int, height: int, out_w: int, out_h: int) -> None:
    scaled_width, scaled_height = CenterCrop((out_h, out_w)).plan(width, height, numbers(0.5)).scaled
    if max(scaled_width, scaled_height) < MAX_SIZE:
        assert scaled_width == out_w or scaled_height == out_h
        scale = max(out_w / width, out_h / height)
        assert abs(scaled_width - width * scale) < 1 + 1e-6
        assert abs(scaled_height - height * scale) < 1 + 1e-6


def torchvision_crop(
    width: int, height: int, scale: tuple[float, float], ratio: tuple[float, float], uniform: Callable[[], float]
) -> tuple[int, int, int, int]:
    """RandomResizedCrop.get_params of torchvision 0.21, its random numbers replaced by `uniform`."""
    area = height * width
    log_ratio = (math.log(ratio[0]), math.log(ratio[1]))
    for _ in range(10):
        target_area = area * (scale[0] + (scale[1] - scale[0]) * uniform())
        aspect_ratio = math.exp(log_ratio[0] + (log_ratio[1] - log_ratio[0]) * uniform())
        w = round(math.sqrt(target_area * aspect_ratio))
        h = round(math.sqrt(target_area / aspect_ratio))
        if 0 < w <= width and 0 < h <= height:
            j = math.floor(uniform() * (width - w + 1))
            i = math.floor(uniform() * (height - h + 1))
            return j, i, w, h
    in_ratio = float(width) / float(height)
    if in_ratio < min(ratio):
        w = width
        h = round(w / min(ratio))
    elif in_ratio > max(ratio):
        h = height
        w = round(h * max(ratio))
    else:
        w = width
        h = height
    return (width - w) // 2, (height - h) // 2, w, h


@given(
    st.integers(16, 3000),
    st.integers(16, 3000),
    st.sampled_from([(0.08, 1.0), (0.5, 1.0), (0.9, 1.0), (1.0, 1.0)]),
    st.sampled_from([(3 / 4, 4 / 3), (1.0, 1.0), (0.5, 2.0)]),
    st.integers(0, 10**6),
)
def test_random_resized_crop_is_torchvisions_but_for_even_edges(
    width: int, height: int, scale: tuple[float, float], ratio: tuple[float, float], clip: int
) -> None:
    uniform = clip_uniform(0, 0, clip)
    uniform()  # the flip
    wanted = torchvision_crop(width, height, scale, ratio, uniform)
    placement = RandomResizedCrop(224, scale, ratio).plan(width, height, clip_uniform(0, 0, clip))
    assert placement.scaled == (224, 224)
    assert all(0 <= wish - got <= 1 for wish, got in zip(wanted, placement.crop, strict=True))


def test_random_resized_crop_spreads_over_areas_aspects_and_places() -> None:
    geometry = RandomResizedCrop(224, flip=0.25)
    placements = [geometry.plan(1920, 1080, clip_uniform(0, 0, clip)) for clip in range(4000)]
    areas = [p.crop[2] * p.crop[3] / (1920 * 1080) for p in placements]
    assert 0.07 < min(areas) < 0.1
    assert 0.7 < max(areas) <= 0.75  # 4:3 in 16:9
    aspects = [p.crop[2] / p.crop[3] for p in placements]
    assert 0.74 < min(aspects) < 0.76
    assert 1.3 < max(aspects) < 1.35
    assert min(p.crop[0] for p in placements) <= 10
    assert max(p.crop[0] + p.crop[2] for p in placements) >= 1910
    assert abs(sum(p.flip for p in placements) / 4000 - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 4000)


@given(UNIFORM, st.floats(0, 1))
def test_flip_is_a_probability(uniform: float, flip: float) -> None:
    assert CenterCrop(8, flip=flip).plan(16, 16, numbers(uniform)).flip is (uniform < flip)
    assert not CenterCrop(8).plan(16, 16, numbers(0.0)).flip
    assert CenterCrop(8, flip=1).plan(16, 16, numbers(1 - 2**-53)).flip


def test_a_crop_of_one_pixel_stays_inside_an_odd_width() -> None:
    geometry = RandomResizedCrop(8, scale=(0.01, 0.01), ratio=(1.0, 1.0))
    for clip in range(50):
        assert_within(geometry.plan(5, 5, clip_uniform(0, 0, clip)), 5, 5)


def test_resize_takes_the_whole_picture() -> None:
    assert Resize((3, 7)).plan(20, 10, numbers()) == Placement((0, 0, 20, 10), (7, 3), (0, 0, 7, 3))


def test_the_size_argument_of_a_data_set() -> None:
    assert make_geometry(None) == NativeSize()
    assert make_geometry(224).output_size == (224, 224)
    assert make_geometry((128, 171)).output_size == (128, 171)
    assert make_geometry([128, 171]).output_size == (128, 171)  # type: ignore[arg-type]
    crop = RandomResizedCrop(112)
    assert make_geometry(crop) is crop


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: make_geometry(0), "size=0: give a side, or"),
        (lambda: make_geometry(-224), "size=-224"),
        (lambda: make_geometry(MAX_SIZE + 1), "size=16385"),
        (lambda: make_geometry(True), "size=True"),
        (lambda: make_geometry((1, 2, 3)), r"size=\(1, 2, 3\)"),  # type: ignore[arg-type]
        (lambda: make_geometry((224, 22.4)), r"size=\(224, 22.4\)"),  # type: ignore[arg-type]
        (lambda: make_geometry("224"), "size='224'.*a geometry such as"),  # type: ignore[arg-type]
        (lambda: make_geometry(224.0), "size=224.0"),  # type: ignore[arg-type]
        (lambda: Resize(2.5), "Resize size=2.5"),  # type: ignore[arg-type]
        (lambda: CenterCrop(224, resize=200), "CenterCrop resize=200.*cover size=224"),
        (lambda: CenterCrop(224, resize="256"), "CenterCrop resize='256'"),  # type: ignore[arg-type]
        (lambda: CenterCrop(224, flip=1.5), "CenterCrop flip=1.5"),
        (lambda: CenterCrop(224, flip="half"), "CenterCrop flip='half'"),  # type: ignore[arg-type]
        (lambda: RandomResizedCrop(224, scale=(0.0, 1.0)), "RandomResizedCrop scale="),
        (lambda: RandomResizedCrop(224, scale=(0.5, 1.1)), "RandomResizedCrop scale="),
        (lambda: RandomResizedCrop(224, scale=0.5), "RandomResizedCrop scale=0.5"),  # type: ignore[arg-type]
        (lambda: RandomResizedCrop(224, ratio=(2.0, 1.0)), "RandomResizedCrop ratio="),
        (lambda: RandomResizedCrop(224, ratio=(1.0, math.inf)), "RandomResizedCrop ratio="),
        (lambda: RandomResizedCrop(224, flip=-0.1), "RandomResizedCrop flip=-0.1"),
    ],
)
def test_what_cannot_work_is_refused_by_name(make: Callable[[], Any], named: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{named}"):
        make()
