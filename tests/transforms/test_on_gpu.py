"""The device transform on a GPU: what the CPU gives, also out of a CUDA graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.transforms.test_pixels import JITTER, MEAN, STD, batch, numbers, planes
from vidload import DeviceTransform

pytestmark = pytest.mark.gpu

TRANSFORM = DeviceTransform(MEAN, STD, flip=0.5, jitter=JITTER)
TOLERANCE = 2e-5 / min(STD)
"""Of normalised values: see docs/device.md."""


def given(wire: str, seed: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    video, colour = planes(seed=seed) if wire == "yuv420" else (batch(seed=seed), {})
    return video, numbers(TRANSFORM, epoch=seed) | colour


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float(np.abs(found.cpu().numpy() - wanted.numpy()).max())


@pytest.mark.parametrize("wire", ["rgb", "yuv420"])
def test_a_gpu_gives_what_the_cpu_gives(wire: str) -> None:
    for seed in range(5):
        video, parameters = given(wire, seed)
        on_gpu = {name: value.cuda() for name, value in parameters.items()}
        assert error(TRANSFORM(video.cuda(), on_gpu), TRANSFORM(video, parameters)) <= TOLERANCE


@pytest.mark.parametrize("wire", ["rgb", "yuv420"])
def test_it_never_waits_for_the_gpu(wire: str) -> None:
    video, parameters = given(wire, 0)
    video, parameters = video.cuda(), {name: value.cuda() for name, value in parameters.items()}
    TRANSFORM(video, parameters)
    torch.cuda.set_sync_debug_mode("error")
    try:
        TRANSFORM(video, parameters)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("wire", ["rgb", "yuv420"])
def test_a_captured_transform_takes_other_clips(wire: str) -> None:
    video, parameters = given(wire, 0)
    video, held = video.cuda(), {name: value.cuda() for name, value in parameters.items()}
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        TRANSFORM(video, held)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = TRANSFORM(video, held)
    for seed in (1, 2):
        other, drawn = given(wire, seed)
        video.copy_(other)
        for name, value in drawn.items():
            held[name].copy_(value)
        graph.replay()
        assert error(out, TRANSFORM(other, drawn)) <= TOLERANCE
