"""RGB made of planes on the device is that of the standards' definitions, clip by clip."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.colours import SHARES, planes_to_rgb, to_yuv
from vidload.errors import ArgumentError
from vidload.transforms.colour import colour_parameters, yuv420_to_rgb
from vidload.transforms.planar import MATRICES, PlaneColour, clip_shape, frame_bytes

COLOURS = [PlaneColour(matrix, full) for matrix in SHARES for full in (False, True)]

colours = st.builds(
    PlaneColour,
    st.sampled_from(list(SHARES)),
    st.booleans(),
    st.tuples(*[st.sampled_from([-0.5, 0.0, 0.25, 0.5, 1.0, 1.5])] * 2),
)


def convert(planes: np.ndarray, clips: list[PlaneColour], *, rounded: bool = False) -> np.ndarray:
    return yuv420_to_rgb(torch.from_numpy(planes), **colour_parameters(clips), round=rounded).numpy()


def noise(clips: int, height: int, width: int, seed: int = 0, frames: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (clips, frames, height * 3 // 2, width), np.uint8)


@given(st.lists(colours, min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**32))
def test_every_pixel_is_that_of_the_definition(clips: list[PlaneColour], rows: int, columns: int, seed: int) -> None:
    planes = noise(len(clips), 2 * rows, 2 * columns, seed)
    rgb = convert(planes, clips)
    assert rgb.dtype == np.float32
    assert rgb.shape == (len(clips), 2, 2 * rows, 2 * columns, 3)
    for clip, colour in enumerate(clips):
        for frame in range(2):
            assert np.abs(rgb[clip, frame] - planes_to_rgb(planes[clip, frame], colour)).max() < 1e-3


@pytest.mark.parametrize(
    ("matrix", "yuv", "rgb"),
    [
        ("bt601", (81, 90, 240), (255, 0, 0)),
        ("bt601", (145, 54, 34), (0, 255, 0)),
        ("bt601", (41, 240, 110), (0, 0, 255)),
        ("bt709", (63, 102, 240), (255, 0, 0)),
        ("bt709", (173, 42, 26), (0, 255, 0)),
        ("bt709", (32, 240, 118), (0, 0, 255)),
    ],
)
def test_the_colour_bars_of_the_standards_come_out(
    matrix: str, yuv: tuple[int, int, int], rgb: tuple[int, int, int]
) -> None:
    """The published 8-bit code values of 100 % primaries."""
    planes = np.concatenate([np.full(16, yuv[0]), np.full(4, yuv[1]), np.full(4, yuv[2])]).astype(np.uint8)
    found = convert(planes.reshape(1, 1, 6, 4), [PlaneColour(matrix, False)], rounded=True)
    assert found.dtype == np.uint8
    assert np.abs(found.astype(int) - rgb).max() <= 1


@pytest.mark.parametrize("colour", COLOURS, ids=str)
def test_colours_survive_the_way_there_and_back(colour: PlaneColour) -> None:
    rgb = np.random.default_rng(1).integers(0, 256, (500, 3))
    yuv = to_yuv(rgb, colour.matrix, colour.full_range).round().clip(0, 255).astype(np.uint8)
    # A clip for each colour: 2 × 2 pixels of it.
    planes = np.concatenate([np.repeat(yuv[:, :1], 4, 1), yuv[:, 1:]], 1).reshape(-1, 1, 3, 2)
    assert np.abs(convert(planes, [colour] * 500)[:, 0, 0, 0] - rgb).max() < 2  # half a step of each of YUV


@pytest.mark.parametrize("colour", COLOURS, ids=str)
def test_grey_stays_grey(colour: PlaneColour) -> None:
    planes = noise(1, 8, 16)
    planes[:, :, 8:] = 128
    rgb = convert(planes, [colour], rounded=True)
    assert (rgb == rgb[..., :1]).all()


def test_clips_of_a_batch_do_not_disturb_each_other() -> None:
    planes = noise(len(COLOURS), 8, 12)
    together = convert(planes, COLOURS)
    for clip, colour in enumerate(COLOURS):
        assert np.array_equal(convert(planes[clip : clip + 1], [colour])[0], together[clip])


def test_rounding_is_to_the_nearest() -> None:
    planes = noise(1, 16, 16)
    exact, rounded = (convert(planes, COLOURS[:1], rounded=rounded) for rounded in (False, True))
    assert np.array_equal(rounded, np.rint(exact))


@pytest.mark.parametrize("siting", [(0.0, 0.5), (1.0, -0.5), (0.5, 0.5), (1.5, 1.0)])
def test_mirroring_planes_is_mirroring_the_picture(siting: tuple[float, float]) -> None:
    clips = [PlaneColour("bt709", False, siting), PlaneColour("bt601", True, siting)]
    planes = torch.from_numpy(noise(2, 8, 12))
    plain = yuv420_to_rgb(planes, **colour_parameters(clips), round=False)
    flipped = yuv420_to_rgb(planes, **colour_parameters(clips), flip=torch.tensor([False, True]), round=False)
    assert torch.equal(flipped[0], plain[0])
    assert torch.allclose(flipped[1], plain[1].flip(-2), atol=1e-3)


def test_chroma_lies_on_the_left_where_nothing_else_is_said() -> None:
    planes, colour = torch.from_numpy(noise(1, 8, 8)), colour_parameters([PlaneColour("bt601", False)])
    assert torch.equal(yuv420_to_rgb(planes, **colour), yuv420_to_rgb(planes, colour["matrix"], colour["full_range"]))


@settings(max_examples=50)
@given(colours, st.integers(0, 3), st.booleans(), st.tuples(st.integers(0, 3), st.integers(0, 3)))
def test_a_colour_keeps_track_of_where_chroma_lies(
    colour: PlaneColour, quarters: int, mirrored: bool, start: tuple[int, int]
) -> None:
    """Where samples lie, followed one by one, in a picture of 8 × 8 pixels that is cut, mirrored and turned."""
    x, y = (colour.siting[axis] + 2 * np.arange(4) for axis in (0, 1))
    x, y = ((place - first)[(first + 1) // 2 :] for place, first in zip((x, y), start, strict=True))
    size = 2 * (4 - (start[0] + 1) // 2), 2 * (4 - (start[1] + 1) // 2)
    found = colour.cut(*start)
    if mirrored:
        x, found = np.sort(size[0] - 1 - x), found.mirrored()
    for _ in range(quarters):
        x, y, size = np.sort(size[1] - 1 - y), x, size[::-1]
    if size[0] and size[1]:
        assert found.turned(quarters).siting == (x[0], y[0])
        assert (found.matrix, found.full_range) == (colour.matrix, colour.full_range)


@pytest.mark.parametrize(
    "planes",
    [
        torch.zeros((1, 2, 6, 4)),
        torch.zeros((1, 2, 6, 5), dtype=torch.uint8),
        torch.zeros((1, 2, 7, 4), dtype=torch.uint8),
        torch.zeros((2, 6, 4), dtype=torch.uint8),
    ],
    ids=["floats", "odd width", "odd height", "no frames"],
)
def test_other_memory_is_refused(planes: torch.Tensor) -> None:
    with pytest.raises(ArgumentError, match=r"give uint8\[B, T, H \* 3 // 2, W\]"):
        yuv420_to_rgb(planes, **colour_parameters([COLOURS[0]] * len(planes)))


def test_planes_take_half_the_bytes() -> None:
    assert clip_shape("rgb", 16, 224, 320) == (16, 224, 320, 3)
    assert clip_shape("yuv420", 16, 224, 320) == (16, 336, 320)
    assert frame_bytes("rgb", 224, 320) == 2 * frame_bytes("yuv420", 224, 320) == 224 * 320 * 3
    assert clip_shape("rgb", 1, 3, 5) == (1, 3, 5, 3)


@pytest.mark.parametrize(("height", "width"), [(223, 224), (224, 223), (1, 1)])
def test_odd_sides_are_refused_by_name(height: int, width: int) -> None:
    with pytest.raises(ArgumentError, match=f"{width} pixels wide and {height} high: both have to be even"):
        clip_shape("yuv420", 1, height, width)


def test_a_form_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ArgumentError, match="wire='nv12': there are 'rgb', 'yuv420'"):
        clip_shape("nv12", 1, 2, 2)  # type: ignore[arg-type]


def test_the_shares_are_those_of_the_standard() -> None:
    assert MATRICES == SHARES
