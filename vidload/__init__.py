"""vidload: clips of long videos for PyTorch training, with no wait at any epoch.

Names are loaded when they are first used, so that ``import vidload`` is quick and worker processes load no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vidload import errors

if TYPE_CHECKING:
    from vidload.check.film import Finding
    from vidload.check.films import FilmReport, check_films
    from vidload.clips.samplers import DenseClips, RandomClips, SparseFrames, UniformClips
    from vidload.config.load import from_config
    from vidload.dataset import Clip, ClipDataset
    from vidload.decode.film import Film, open_video
    from vidload.index.build import build_index
    from vidload.index.reader import VideoIndex
    from vidload.loader.batch import Batch
    from vidload.loader.info import WorkerInfo, get_worker_info
    from vidload.loader.loader import VideoLoader
    from vidload.loader.span import Span
    from vidload.report.headroom import Headroom, measure_headroom
    from vidload.transforms.geometry import CenterCrop, RandomResizedCrop, Resize
    from vidload.transforms.pixels import ColorJitter, DeviceTransform

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "CenterCrop",
    "Clip",
    "ClipDataset",
    "ColorJitter",
    "DenseClips",
    "DeviceTransform",
    "Film",
    "FilmReport",
    "Finding",
    "Headroom",
    "RandomClips",
    "RandomResizedCrop",
    "Resize",
    "Span",
    "SparseFrames",
    "UniformClips",
    "VideoIndex",
    "VideoLoader",
    "WorkerInfo",
    "build_index",
    "check_films",
    "errors",
    "from_config",
    "get_worker_info",
    "measure_headroom",
    "open_video",
]

_MODULES = {
    "vidload.check.films": ("FilmReport", "check_films"),
    "vidload.check.film": ("Finding",),
    "vidload.clips.samplers": ("DenseClips", "RandomClips", "SparseFrames", "UniformClips"),
    "vidload.config.load": ("from_config",),
    "vidload.dataset": ("Clip", "ClipDataset"),
    "vidload.decode.film": ("Film", "open_video"),
    "vidload.index.build": ("build_index",),
    "vidload.index.reader": ("VideoIndex",),
    "vidload.loader.batch": ("Batch",),
    "vidload.loader.info": ("WorkerInfo", "get_worker_info"),
    "vidload.loader.loader": ("VideoLoader",),
    "vidload.loader.span": ("Span",),
    "vidload.report.headroom": ("Headroom", "measure_headroom"),
    "vidload.transforms.geometry": ("CenterCrop", "RandomResizedCrop", "Resize"),
    "vidload.transforms.pixels": ("ColorJitter", "DeviceTransform"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'vidload' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
