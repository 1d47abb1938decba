"""What is made of pixels on a GPU is what is made of them on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.gpu.conftest import Films
from vidload import ClipDataset, ColorJitter, DeviceTransform, RandomClips, RandomResizedCrop, VideoLoader

pytestmark = pytest.mark.gpu

JITTER = ColorJitter(0.3, 0.3, 0.3, 0.2)
MEAN, STD = (0.45, 0.45, 0.45), (0.225, 0.225, 0.225)

TOLERANCES = {"float32": 1e-4, "float16": 5e-3, "bfloat16": 5e-2, "uint8": 1}
"""In units of the result; a value of 255 in uint8 may be rounded the other way."""


def videos(films: Films, device: str, **arguments: Any) -> list[torch.Tensor]:
    sampler = RandomClips(num_frames=4, stride=2, clips_per_video=6)
    dataset = ClipDataset(films.index("h264"), sampler, RandomResizedCrop((64, 96)), "pyav")
    with VideoLoader(dataset, 3, shuffle=True, seed=2, worker_kind="thread", device=device, **arguments) as loader:
        return [batch.video.cpu() for _ in range(2) for batch in loader]


@pytest.mark.parametrize("wire", ["rgb", "yuv420"])
@pytest.mark.parametrize("dtype", list(TOLERANCES))
@pytest.mark.parametrize("layout", ["BCTHW", "BTCHW"])
def test_it_is_that_of_the_cpu(wire: str, dtype: str, layout: str, films: Films) -> None:
    normal = {} if dtype == "uint8" else {"mean": MEAN, "std": STD}
    transform = DeviceTransform(dtype=dtype, layout=layout, flip=0.5, jitter=JITTER, **normal)  # type: ignore[arg-type]
    made, expected = (videos(films, place, wire=wire, device_transform=transform) for place in ("cuda", "cpu"))
    for one, other in zip(made, expected, strict=True):
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
        torch.testing.assert_close(one.float(), other.float(), rtol=0, atol=TOLERANCES[dtype])


def test_compiled_it_is_the_same(films: Films) -> None:
    plain = DeviceTransform(MEAN, STD, flip=0.5, jitter=JITTER)
    compiled = DeviceTransform(MEAN, STD, flip=0.5, jitter=JITTER, compile=True)
    made, expected = (videos(films, "cuda", device_transform=transform) for transform in (compiled, plain))
    for one, other in zip(made, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-3)
