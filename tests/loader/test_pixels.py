"""Pixels made on the device: the same for every way of loading, and what the transform makes of the plain batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import vidload
from tests.loader.datasets import Numbers
from vidload import Batch, ClipDataset, ColorJitter, DeviceTransform, VideoLoader
from vidload.clips.random import pixel_uniforms
from vidload.errors import ArgumentError

KINDS: list[dict[str, Any]] = [
    {"num_workers": 0},
    {"num_workers": 3, "worker_kind": "thread", "prefetch_batches": 4},
    {"num_workers": 2, "worker_kind": "process", "device_prefetch": 1},
]

every_kind = pytest.mark.parametrize("kind", KINDS, ids=["inline", "thread", "process"])

TRANSFORM = DeviceTransform(
    mean=(0.4, 0.5, 0.6),
    std=(0.2, 0.3, 0.4),
    dtype="float16",
    layout="BTCHW",
    flip=0.5,
    jitter=ColorJitter(0.2, 0.2, 0.2, 0.1),
)


def videos(loader: VideoLoader, epochs: int = 2) -> list[torch.Tensor]:
    with loader:
        return [batch.video for _ in range(epochs) for batch in loader]


@every_kind
def test_a_device_transform_is_that_of_the_plain_batch(clips: ClipDataset, kind: dict[str, Any]) -> None:
    made = videos(VideoLoader(clips, 4, shuffle=True, seed=5, device_transform=TRANSFORM, **kind))
    with VideoLoader(clips, 4, shuffle=True, seed=5, num_workers=0) as loader:
        plain = [batch for _ in range(2) for batch in loader]
    assert len(made) == len(plain)
    for video, batch in zip(made, plain, strict=True):
        uniforms = pixel_uniforms(5, batch.epoch, batch.sample.tolist(), TRANSFORM.num_uniforms)
        expected = TRANSFORM(batch.video, TRANSFORM.parameters(uniforms))
        assert video.dtype == torch.float16
        assert video.shape == (len(batch), 4, 3, 16, 32)
        assert torch.equal(video, expected)


@every_kind
def test_planes_on_the_way_give_nearly_the_same_colours(clips: ClipDataset, kind: dict[str, Any]) -> None:
    made = videos(VideoLoader(clips, 4, seed=5, wire="yuv420", **kind))
    plain = videos(VideoLoader(clips, 4, seed=5, num_workers=0))
    for video, rgb in zip(made, plain, strict=True):
        assert (video.dtype, video.shape) == (torch.uint8, rgb.shape)
        assert video.is_contiguous(memory_format=torch.channels_last_3d)
        difference = (video.float() - rgb.float()).abs()
        assert difference.mean() < 3


@every_kind
def test_planes_and_a_transform(clips: ClipDataset, kind: dict[str, Any]) -> None:
    both = VideoLoader(clips, 4, shuffle=True, wire="yuv420", device_transform=TRANSFORM, **kind)
    plain = VideoLoader(clips, 4, shuffle=True, num_workers=0, device_transform=TRANSFORM)
    for video, rgb in zip(videos(both), videos(plain), strict=True):
        assert video.shape == rgb.shape
        assert (video.float() - rgb.float()).abs().mean() < 0.1


def test_planes_take_half_the_memory(clips: ClipDataset) -> None:
    sizes = []
    for wire in ("rgb", "yuv420"):
        with VideoLoader(clips, 4, num_workers=1, worker_kind="thread", wire=wire) as loader:
            next(iter(loader))
            sizes.append(loader._pipeline._scheduler._assembly.row_bytes)
    assert sizes[0] == 2 * sizes[1]


@every_kind
def test_a_function_comes_after_the_colours(clips: ClipDataset, kind: dict[str, Any]) -> None:
    def shape(batch: Batch) -> tuple[Any, ...]:
        return batch.video.dtype, tuple(batch.video.shape)

    with VideoLoader(clips, 5, wire="yuv420", device_transform=shape, **kind) as loader:
        assert list(loader) == [(torch.uint8, (5, 3, 4, 16, 32))] * 2


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"device_transform": TRANSFORM}, "device_transform: a DeviceTransform is for a ClipDataset with a size"),
        ({"wire": "yuv420"}, "wire='yuv420' is for a ClipDataset"),
        ({"wire": "yuv444"}, "wire='yuv444': there are 'rgb', 'yuv420'"),
    ],
)
def test_what_is_for_clips_is_refused_elsewhere(arguments: dict[str, Any], named: str, index_path: Path) -> None:
    native = vidload.ClipDataset(index_path, size=None)
    changed = vidload.ClipDataset(index_path, transform=repr)
    for dataset in (Numbers(4), native, changed):
        with pytest.raises(ArgumentError, match=named):
            VideoLoader(dataset, num_workers=0, **arguments)


def test_planes_need_pyav_and_even_sides(index_path: Path) -> None:
    with pytest.raises(ArgumentError, match="wire='yuv420' with decoder='decord'"):
        VideoLoader(vidload.ClipDataset(index_path, decoder="decord"), wire="yuv420", num_workers=0)
    with pytest.raises(ArgumentError, match="15 pixels wide"):
        VideoLoader(vidload.ClipDataset(index_path, size=(16, 15)), wire="yuv420", num_workers=0)
