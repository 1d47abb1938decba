"""Keys are the arguments of the classes they configure, and reach them."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from vidload.clips.samplers import DenseClips, RandomClips, SparseFrames, UniformClips
from vidload.config.load import load_config
from vidload.config.models import CLIPS, SIZES, ColorJitterConfig, DatasetConfig, DeviceTransformConfig, LoaderConfig
from vidload.config.values import argument_of
from vidload.errors import ConfigError
from vidload.transforms.geometry import CenterCrop, RandomResizedCrop, Resize

CLASSES = {
    "random": RandomClips,
    "uniform": UniformClips,
    "dense": DenseClips,
    "sparse": SparseFrames,
    "resize": Resize,
    "center_crop": CenterCrop,
    "random_resized_crop": RandomResizedCrop,
}


def arguments(target: Any) -> set[str]:
    return set(inspect.signature(target).parameters)


@pytest.mark.parametrize("kind", [*CLIPS, *SIZES])
def test_keys_of_a_kind_are_its_arguments(kind: str) -> None:
    assert set((CLIPS | SIZES)[kind].model_fields) - {"type"} == arguments(CLASSES[kind])


def test_keys_of_the_sections_are_the_arguments_of_data_set_and_loader() -> None:
    from vidload.dataset import ClipDataset
    from vidload.decode.backends import DecoderName
    from vidload.loader.loader import VideoLoader

    assert set(DatasetConfig.model_fields) == arguments(ClipDataset) - {"transform"}
    decoders = get_args(get_type_hints(DatasetConfig)["decoder"])
    assert decoders == (*get_args(DecoderName), "dali")
    objects = {"dataset", "sampler", "batch_sampler", "collate_fn", "worker_init_fn", "trace"}
    assert set(LoaderConfig.model_fields) == arguments(VideoLoader) - objects


def test_keys_of_the_device_transform_are_its_arguments() -> None:
    from vidload.transforms.pixels import ColorJitter, DeviceTransform

    assert set(DeviceTransformConfig.model_fields) == arguments(DeviceTransform)
    assert set(ColorJitterConfig.model_fields) == arguments(ColorJitter)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("clips: {type: random}", RandomClips()),
        ("clips: {type: random, num_frames: 8, fps: 6, clips_per_video: 3, short: loop}",
         RandomClips(8, fps=6, clips_per_video=3, short="loop")),
        ("clips: {type: uniform, stride: 2, clips_per_video: 5}", UniformClips(stride=2, clips_per_video=5)),
        ("clips: {type: dense, hop: 8}", DenseClips(hop=8)),
        ("clips: {type: dense, fps: 8, hop: 0.5}", DenseClips(fps=8, hop=0.5)),
        ("clips: {type: dense, fps: 8, hop: 2}", DenseClips(fps=8, hop=2)),
        ("clips: {type: sparse, num_frames: 4, by: time, jitter: true}", SparseFrames(4, by="time", jitter=True)),
        ("size: null", None),
        ("size: 112", 112),
        ("size: [128, 171]", (128, 171)),
        ("size: {type: resize, size: [8, 9]}", Resize((8, 9))),
        ("size: {type: center_crop, size: 224, resize: 256, flip: 0.5}", CenterCrop(224, resize=256, flip=0.5)),
        ("size: {type: random_resized_crop, size: 8, scale: [0.5, 1], ratio: [1, 1.5], flip: 0}",
         RandomResizedCrop(8, (0.5, 1.0), (1.0, 1.5), 0.0)),
    ],
)  # fmt: skip
def test_a_value_becomes_what_the_class_takes(tmp_path: Path, text: str, wanted: Any) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"dataset:\n  index: a\n  {text}\n")
    name = text.partition(":")[0]
    assert argument_of(load_config(path).dataset.given()[name]) == wanted


def test_a_device_transform_comes_from_the_file(tmp_path: Path) -> None:
    from vidload.transforms.pixels import ColorJitter, DeviceTransform

    path = tmp_path / "c.yaml"
    path.write_text(
        "dataset: {index: a}\nloader:\n  device_transform:\n    mean: [0.4, 0.5, 0.6]\n    std: [1, 1, 0.5]\n"
        "    dtype: bfloat16\n    flip: 0.5\n    jitter: {brightness: 0.2, hue: [-0.1, 0.2]}\n"
    )
    assert argument_of(load_config(path).loader.given()["device_transform"]) == DeviceTransform(
        (0.4, 0.5, 0.6), (1, 1, 0.5), "bfloat16", flip=0.5, jitter=ColorJitter(0.2, hue=(-0.1, 0.2))
    )


def test_what_a_device_transform_refuses_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("dataset: {index: a}\nloader:\n  device_transform: {std: [0, 1, 1]}\n")
    with pytest.raises(ConfigError, match=r"c.yaml:3: loader.device_transform: std=\(0.*: give three numbers above 0"):
        load_config(path)
