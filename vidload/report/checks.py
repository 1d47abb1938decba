"""Checks of what is installed: each gives status, detail and what to do."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
import tempfile
from pathlib import Path
from typing import Literal

__all__ = ["Result", "dali", "decord", "package", "pyav", "python", "torch", "torchcodec"]

Result = tuple[Literal["ok", "missing", "broken"], str, str]

FRAMES = 8


def python() -> Result:
    """Python, and the system it is on."""
    found = f"{platform.python_version()} on {platform.system()} {platform.release()}"
    if sys.platform != "linux":
        return "broken", found, "vidload's workers need Linux (memfd_create, prctl)"
    return "ok", found, ""


def package() -> Result:
    """Vidload itself."""
    version = importlib.metadata.version("vidload") if _has("vidload") else "not installed as a package,"
    return "ok", f"{version} in {Path(__file__).parents[1]}", ""


def torch() -> Result:
    """torch, and what it was built for."""
    if importlib.util.find_spec("torch") is None:
        return "missing", "torch isn't installed", "pip install torch"
    import torch as module

    built = f"for CUDA {module.version.cuda}" if module.version.cuda else "without CUDA"
    float(module.ones(2).sum())
    return "ok", f"{module.__version__}, built {built}", ""


def pyav() -> Result:
    """PyAV decodes a small film."""
    return _decodes("pyav", "av", "pip install av", "libx264")


def decord() -> Result:
    """Decord decodes a small film."""
    return _decodes("decord", "decord", "pip install decord2", "libx264")


def torchcodec() -> Result:
    """Torchcodec decodes a small film."""
    return _decodes("torchcodec", "torchcodec", "pip install 'vidload[torchcodec]'", "libx264")


def dali() -> Result:
    """DALI decodes a small film on the CPU."""
    try:
        there = importlib.util.find_spec("nvidia.dali") is not None
    except ModuleNotFoundError:
        there = False
    if not there:
        return "missing", "DALI isn't installed", "pip install 'vidload[dali]', to decode on a GPU"
    import numpy as np

    from vidload.decode.dali import DaliDecoder
    from vidload.decode.encoded import encode_slice
    from vidload.decode.source import read_slice
    from vidload.index.demux import demux_video
    from vidload.transforms.geometry import NativeSize

    version = importlib.metadata.version("nvidia-dali-cuda130") if _has("nvidia-dali-cuda130") else "some version"
    with tempfile.TemporaryDirectory() as folder:
        video = demux_video(_write(folder, "libvpx-vp9"))
        placement = NativeSize().plan(video.width, video.height, lambda: 0.5)
        clip = encode_slice(read_slice(video, np.arange(FRAMES)), placement)
        decoded = DaliDecoder("cpu").decode([clip], (video.height, video.width))
    if decoded.errors:
        return "broken", str(decoded.errors[0]), "install nvidia-dali-cuda130 again"
    return _right(decoded.video[0].numpy(), version, "install nvidia-dali-cuda130 again")


def _decodes(decoder: str, module: str, install: str, encoder: str) -> Result:
    from vidload.decode.film import open_video
    from vidload.errors import ArgumentError

    if importlib.util.find_spec(module) is None:
        return "missing", f"{module} isn't installed", install
    distribution = {"decord": "decord2"}.get(module, module)
    version = importlib.metadata.version(distribution) if _has(distribution) else "some version"
    with tempfile.TemporaryDirectory() as folder:
        try:
            with open_video(_write(folder, encoder), decoder) as film:  # type: ignore[arg-type]
                frames = film.frames(list(range(FRAMES)))
        except ArgumentError as error:
            return "broken", str(error), "on Debian: apt-get install ffmpeg"
    return _right(frames, version, f"{install} again")


def _right(frames: object, version: str, fix: str) -> Result:
    from vidload.synthetic import read_number

    found = [read_number(frame) for frame in frames]  # type: ignore[attr-defined]
    if found != list(range(FRAMES)):
        return "broken", f"{version} gives frames {found} of a film of {FRAMES}", fix
    return "ok", f"{version}, decodes a film of {FRAMES} frames", ""


def _write(folder: str, encoder: str) -> Path:
    from vidload.synthetic import write_film

    return write_film(Path(folder) / "film.mp4", FRAMES, codec=encoder)


def _has(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
