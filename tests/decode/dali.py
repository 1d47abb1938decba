"""What the tests of DALI's backend share: films that it decodes on the CPU, and how frames are compared."""

from __future__ import annotations

import importlib.util
import os

import numpy as np
import numpy.typing as npt
import pytest
import torch

from tests.films import Film
from vidload.synthetic import read_number

INSTALLED = importlib.util.find_spec("nvidia") is not None and importlib.util.find_spec("nvidia.dali") is not None

needs_dali = pytest.mark.skipif(
    not INSTALLED and os.environ.get("VIDLOAD_REQUIRE_DALI") != "1",
    reason="DALI isn't installed: pip install 'vidload[dali]'",
)

FILMS = [
    Film("vp8", ".webm", "vp8", "libvpx", width=256, height=128),
    Film("vp9", ".webm", "vp9", "libvpx-vp9", width=256, height=128),
    Film("vp9_mp4", ".mp4", "vp9", "libvpx-vp9", width=256, height=128, arguments={"moving": True}),
    Film("mjpeg", ".avi", "mjpeg", "mjpeg", width=256, height=128),
]
MEAN_DIFFERENCE = 2.5
"""Levels of 255 by which pixels may differ from PyAV's on average; see docs/dali.md."""


def numbers(clip: torch.Tensor) -> list[int]:
    return [read_number(frame.numpy()) for frame in clip]


def difference(one: torch.Tensor, other: npt.NDArray[np.uint8]) -> float:
    return float(np.abs(one.numpy().astype(int) - other).mean())
