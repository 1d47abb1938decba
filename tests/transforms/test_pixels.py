"""The device transform does what torchvision's transforms of floats do, by a float64 reference, in few operations."""

from __future__ import annotations

import colorsys
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vidload import ColorJitter, DeviceTransform
from vidload.clips.random import pixel_uniforms
from vidload.errors import ArgumentError
from vidload.transforms.colour import colour_parameters, yuv420_to_rgb
from vidload.transforms.planar import PlaneColour

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
JITTER = ColorJitter(0.4, (0.5, 1.8), 0.4, 0.2)
EPSILON = {"float32": 2e-5, "float16": 2e-3, "bfloat16": 2e-2}
"""Largest error of values normalised to about ±2.6; of the types other than float32, half a step of them."""


def batch(clips: int = 3, frames: int = 2, height: int = 6, width: int = 8, seed: int = 0) -> torch.Tensor:
    """uint8[B, 3, T, H, W] as the loader gives it: a view of B×T×H×W×C memory."""
    pixels = np.random.default_rng(seed).integers(0, 256, (clips, frames, height, width, 3), np.uint8)
    pixels[0, 0, 0] = pixels[0, 0, 0, :, :1]  # a row of greys
    return torch.from_numpy(pixels).permute(0, 4, 1, 2, 3)


def planes(clips: int = 3, seed: int = 0) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    drawn = np.random.default_rng(seed).integers(0, 256, (clips, 2, 9, 8), np.uint8)
    colours = [PlaneColour("bt709", False, (1.0, 0.5)), PlaneColour("bt601", True), PlaneColour("bt2020", False)]
    return torch.from_numpy(drawn), colour_parameters([colours[clip % 3] for clip in range(clips)])


def numbers(transform: DeviceTransform, clips: int = 3, epoch: int = 0) -> dict[str, torch.Tensor]:
    return transform.parameters(pixel_uniforms(5, epoch, range(clips), transform.num_uniforms))


def reference(transform: DeviceTransform, video: np.ndarray, parameters: dict[str, torch.Tensor]) -> np.ndarray:
    """float64[B, C, T, H, W] by torchvision's definitions, of values of 0 to 255."""
    clips = []
    for clip, pixels in enumerate(np.moveaxis(np.asarray(video, np.float64), 1, -1) / 255):
        if "flip" in parameters and parameters["flip"][clip]:
            pixels = pixels[:, :, ::-1]
        grey = np.array([0.2989, 0.587, 0.114])
        factors = {name: float(value[clip]) for name, value in parameters.items() if name in ("brightness", "hue")}
        if "brightness" in factors:
            pixels = np.clip(pixels * factors["brightness"], 0, 1)
        if "contrast" in parameters:
            mean, factor = (pixels @ grey).mean((1, 2))[:, None, None, None], float(parameters["contrast"][clip])
            pixels = np.clip(factor * pixels + (1 - factor) * mean, 0, 1)
        if "saturation" in parameters:
            factor = float(parameters["saturation"][clip])
            pixels = np.clip(factor * pixels + (1 - factor) * (pixels @ grey)[..., None], 0, 1)
        if "hue" in factors:
            hsv = [colorsys.rgb_to_hsv(*pixel) for pixel in pixels.reshape(-1, 3)]
            turned = [colorsys.hsv_to_rgb((h + factors["hue"]) % 1, s, v) for h, s, v in hsv]
            pixels = np.array(turned).reshape(pixels.shape)
        clips.append((pixels - np.array(transform.mean or (0, 0, 0))) / np.array(transform.std or (1, 1, 1)))
    return np.moveaxis(np.stack(clips), -1, 1)


@pytest.mark.parametrize("dtype", list(EPSILON))
@pytest.mark.parametrize("layout", ["BCTHW", "BTCHW"])
@pytest.mark.parametrize("jitter", [None, JITTER, ColorJitter(hue=0.5)], ids=["plain", "jitter", "hue"])
@pytest.mark.parametrize("flip", [0.0, 0.5])
def test_it_is_what_torchvision_means(dtype: str, layout: str, jitter: ColorJitter | None, flip: float) -> None:
    transform = DeviceTransform(MEAN, STD, dtype, layout, flip, jitter)
    video, parameters = batch(), numbers(transform)
    out = transform(video, parameters)
    assert out.dtype == getattr(torch, dtype)
    wanted = reference(transform, video.numpy(), parameters)
    wanted = wanted if layout == "BCTHW" else wanted.swapaxes(1, 2)
    assert out.shape == wanted.shape
    error = np.abs(out.double().numpy() - wanted)
    assert (error <= EPSILON[dtype] * np.maximum(1, np.abs(wanted))).all()


@settings(max_examples=60)
@given(
    st.integers(0, 2**32),
    st.builds(
        ColorJitter,
        st.floats(0, 2),
        st.floats(0, 2),
        st.tuples(st.floats(0, 1), st.floats(1, 3)),
        st.floats(0, 0.5),
    ),
)
def test_jitter_is_right_for_any_colours_and_factors(seed: int, jitter: ColorJitter) -> None:
    transform = DeviceTransform(jitter=jitter, flip=0.3)
    video = batch(2, 1, 3, 4, seed)
    parameters = transform.parameters(np.random.default_rng(seed).random((2, transform.num_uniforms)))
    error = np.abs(transform(video, parameters).numpy() - reference(transform, video.numpy(), parameters))
    # Hue turns by the difference of channels, which rounding changes by more where clipping left little of it.
    assert error.max() < 1e-4


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("brightness", lambda rgb: np.minimum(rgb * 1.5, 1)),
        ("contrast", lambda rgb: rgb),  # of a picture of one colour of grey
        ("saturation", lambda rgb: rgb),
        ("hue", lambda rgb: rgb),
    ],
)
def test_grey_pictures_only_change_in_brightness(name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    value = {"hue": (0.3, 0.3)}.get(name, (1.5, 1.5))
    transform = DeviceTransform(jitter=ColorJitter(**{name: value}))
    video = torch.arange(0, 256, 51, dtype=torch.uint8).view(-1, 1, 1, 1, 1).expand(6, 3, 2, 2, 2)
    out = transform(video, numbers(transform, 6)).numpy()
    # The shares of torchvision's grey add up to 0.9999.
    assert np.abs(out - change(video.numpy() / 255)).max() < 1e-4


def test_a_third_of_a_turn_makes_red_green_and_green_blue() -> None:
    transform = DeviceTransform(jitter=ColorJitter(hue=(1 / 3, 1 / 3)))
    red = torch.tensor([255, 0, 0, 0, 255, 0], dtype=torch.uint8).view(2, 3, 1, 1, 1)
    out = transform(red, numbers(transform, 2)).flatten(1)
    assert torch.allclose(out, torch.tensor([[0.0, 1, 0], [0, 0, 1]]), atol=1e-6)


def test_all_frames_of_a_clip_are_changed_alike_and_clips_are_not() -> None:
    transform = DeviceTransform(flip=0.5, jitter=JITTER)
    video = batch(1, 1).expand(8, 3, 4, 6, 8)
    out = transform(video, numbers(transform, 8))
    assert all(torch.equal(out[:, :, 0], out[:, :, frame]) for frame in range(4))
    assert len({out[clip].numpy().tobytes() for clip in range(8)}) == 8


def test_flip_mirrors_the_clips_that_were_drawn() -> None:
    transform = DeviceTransform(dtype="uint8", flip=0.5)
    video, drawn = batch(8), numbers(transform, 8)
    assert 0 < drawn["flip"].sum() < 8
    out = transform(video, drawn)
    for clip, flip in enumerate(drawn["flip"]):
        assert torch.equal(out[clip], video[clip].flip(-1) if flip else video[clip])


@pytest.mark.parametrize(("flip", "share"), [(1.0, (1, 1)), (0.25, (0.22, 0.28))])
def test_flip_is_as_likely_as_asked(flip: float, share: tuple[float, float]) -> None:
    drawn = numbers(DeviceTransform(flip=flip), 2000)["flip"]
    assert share[0] <= drawn.float().mean() <= share[1]


def test_factors_fill_their_ranges() -> None:
    drawn = numbers(DeviceTransform(jitter=JITTER), 2000)
    for name, (low, high) in {
        "brightness": (0.6, 1.4),
        "contrast": (0.5, 1.8),
        "saturation": (0.6, 1.4),
        "hue": (-0.2, 0.2),
    }.items():
        assert drawn[name].dtype == torch.float32
        assert low <= drawn[name].min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < drawn[name].max() <= high


def test_what_is_random_is_a_function_of_the_clip_alone() -> None:
    transform = DeviceTransform(flip=0.5, jitter=JITTER)
    together = numbers(transform, 6)
    for sample in range(6):
        alone = transform.parameters(pixel_uniforms(5, 0, [sample], transform.num_uniforms))
        assert {name: value.item() for name, value in alone.items()} == {
            name: value[sample].item() for name, value in together.items()
        }
    assert not torch.equal(numbers(transform, 6, epoch=1)["hue"], together["hue"])


def test_one_change_draws_the_same_whether_others_are_wanted_or_not() -> None:
    hue = numbers(DeviceTransform(jitter=ColorJitter(hue=0.2)))["hue"]
    assert torch.equal(numbers(DeviceTransform(flip=0.5, jitter=JITTER))["hue"], hue)


def test_without_anything_random_no_number_is_drawn() -> None:
    for jitter in (None, ColorJitter(), ColorJitter(1 - 1.0, (1, 1), 0, (0, 0))):
        transform = DeviceTransform(jitter=jitter)
        assert transform.num_uniforms == 0
        assert numbers(transform) == {}


def test_floats_without_mean_and_std_are_zero_to_one() -> None:
    video = batch()
    assert torch.allclose(DeviceTransform()(video, {}), video / 255, rtol=1e-6, atol=0)


def test_bytes_are_left_alone_where_nothing_is_asked() -> None:
    video = batch()
    out = DeviceTransform(dtype="uint8", layout="BTCHW")(video, {})
    assert torch.equal(out, video.transpose(1, 2))


def test_jittered_bytes_are_rounded() -> None:
    exact, rounded = (DeviceTransform(dtype=dtype, jitter=JITTER) for dtype in ("float32", "uint8"))
    video, drawn = batch(), numbers(exact)
    assert torch.equal(rounded(video, drawn), (exact(video, drawn) * 255).round().to(torch.uint8))


@pytest.mark.parametrize("jitter", [None, JITTER], ids=["plain", "jitter"])
@pytest.mark.parametrize("wire", ["rgb", "yuv420"])
def test_memory_keeps_its_order(wire: str, jitter: ColorJitter | None) -> None:
    for layout, order in (("BCTHW", (0, 2, 3, 4, 1)), ("BTCHW", (0, 1, 3, 4, 2))):
        transform = DeviceTransform(MEAN, STD, layout=layout, flip=0.5, jitter=jitter)
        video, colour = planes() if wire == "yuv420" else (batch(), {})
        out = transform(video, numbers(transform) | colour)
        assert out.permute(order).is_contiguous()
        if layout == "BCTHW":
            assert out.is_contiguous(memory_format=torch.channels_last_3d)


@pytest.mark.parametrize("jitter", [None, JITTER], ids=["plain", "jitter"])
def test_planes_are_not_rounded_on_the_way(jitter: ColorJitter | None) -> None:
    transform = DeviceTransform(MEAN, STD, flip=0.5, jitter=jitter)
    video, colour = planes()
    drawn = numbers(transform)
    assert drawn["flip"].any()
    rgb = yuv420_to_rgb(video, **colour, round=False).permute(0, 4, 1, 2, 3)
    error = transform(video, drawn | colour).numpy() - reference(transform, rgb.numpy(), drawn)
    assert np.abs(error).max() < 2e-4


def test_planes_can_become_bytes() -> None:
    video, colour = planes()
    out = DeviceTransform(dtype="uint8")(video, colour)
    assert torch.equal(out, yuv420_to_rgb(video, **colour).permute(0, 4, 1, 2, 3))


@pytest.mark.parametrize("wire", ["rgb", "yuv420"])
def test_nothing_is_read_back_from_the_device(wire: str) -> None:
    """Tensors without values: reading one, or mixing in one of the host's, would fail. Nor does the graph break."""
    transform = DeviceTransform(MEAN, STD, "bfloat16", "BTCHW", 0.5, JITTER)
    video, colour = planes() if wire == "yuv420" else (batch(), {})
    given_ = {name: value.to("meta") for name, value in (numbers(transform) | colour).items()}
    out = transform(video.to("meta"), given_)
    assert out.device.type == "meta"
    assert out.shape == transform(video, numbers(transform) | colour).shape
    whole = torch.compile(transform._apply, backend="eager", fullgraph=True)
    assert torch.equal(whole(video, numbers(transform) | colour), transform(video, numbers(transform) | colour))


@pytest.mark.timeout(300)
def test_compiled_it_gives_the_same() -> None:
    plain, compiled = (
        DeviceTransform(MEAN, STD, flip=0.5, jitter=JITTER, compile=compile) for compile in (False, True)
    )
    try:
        torch.compile(torch.neg)(torch.ones(2))
    except Exception as error:  # of many kinds: no compiler, no headers of Python's, no place to write
        pytest.skip(f"torch.compile compiles nothing here: {str(error).splitlines()[0]}")
    video, colour = planes()
    parameters = numbers(plain) | colour
    out = compiled(video, parameters)
    assert torch.allclose(out, plain(video, parameters), atol=1e-5)
    assert out.stride() == plain(video, parameters).stride()


@pytest.mark.parametrize("compile", [False, True])
def test_it_travels_and_can_be_compared(compile: bool) -> None:
    transform = DeviceTransform(list(MEAN), STD, torch.float16, flip=0.5, jitter=JITTER, compile=compile)  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(transform)) == transform
    assert hash(transform) == hash(DeviceTransform(MEAN, STD, "float16", flip=0.5, jitter=JITTER, compile=compile))
    with pytest.raises(AttributeError):
        transform.flip = 0.1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mean": (0.5, 0.5)}, r"mean=\(0.5, 0.5\): give three numbers"),
        ({"mean": 0.5}, "mean=0.5"),
        ({"mean": (0.5, 0.5, float("nan"))}, "mean="),
        ({"std": (0.2, 0.2, 0)}, "std=.*three numbers above 0"),
        ({"dtype": "float64"}, "dtype='float64': there are 'float32'"),
        ({"dtype": torch.int8}, "dtype=torch.int8"),
        ({"layout": "THWC"}, "layout='THWC': there are 'BCTHW', 'BTCHW'"),
        ({"flip": 1.5}, "flip=1.5"),
        ({"flip": True}, "flip=True"),
        ({"jitter": 0.4}, "jitter=0.4: give a vidload.ColorJitter"),
        ({"compile": "yes"}, "compile='yes'"),
        ({"dtype": "uint8", "mean": MEAN}, "mean and std with dtype='uint8'"),
    ],
    ids=str,
)
def test_arguments_that_cannot_work_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        DeviceTransform(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"brightness": -0.1},
        {"brightness": (1, 2, 3)},
        {"contrast": (1.2, 0.8)},
        {"contrast": float("inf")},
        {"saturation": (-1, 1)},
        {"hue": 0.6},
        {"hue": (-0.6, 0)},
        {"hue": "red"},
    ],
    ids=str,
)
def test_ranges_that_cannot_work_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=f"{next(iter(arguments))}=.*: give a number"):
        ColorJitter(**arguments)


def test_a_batch_of_another_kind_is_refused() -> None:
    for video in (torch.zeros(2, 3, 4, 5, 6), batch().permute(0, 2, 3, 4, 1), batch()[0, 0]):
        with pytest.raises(ArgumentError, match="video of torch"):
            DeviceTransform()(video, {})


def test_parameters_that_are_missing_are_named() -> None:
    transform = DeviceTransform(flip=0.5, jitter=ColorJitter(hue=0.1))
    with pytest.raises(ArgumentError, match="flip, hue missing"):
        transform(batch(), {})
    with pytest.raises(ArgumentError, match="matrix, full_range missing"):
        DeviceTransform()(planes()[0], {})
    with pytest.raises(ArgumentError, match=r"uniforms of shape \(3, 4\): give float64\[B, 5\]"):
        transform.parameters(np.zeros((3, 4)))
