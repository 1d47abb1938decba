"""From a configuration's values to what the classes take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vidload.clips.samplers import DenseClips, RandomClips, SparseFrames, UniformClips
from vidload.config.models import ColorJitterConfig, DeviceTransformConfig, Settings
from vidload.transforms.geometry import CenterCrop, RandomResizedCrop, Resize

__all__ = ["argument_of"]

_CLASSES: dict[str, Callable[..., Any]] = {
    "random": RandomClips,
    "uniform": UniformClips,
    "dense": DenseClips,
    "sparse": SparseFrames,
    "resize": Resize,
    "center_crop": CenterCrop,
    "random_resized_crop": RandomResizedCrop,
}


def _class_of(value: Settings) -> Callable[..., Any]:
    if isinstance(value, (ColorJitterConfig, DeviceTransformConfig)):
        from vidload.transforms.pixels import ColorJitter, DeviceTransform  # torch takes a second

        return ColorJitter if isinstance(value, ColorJitterConfig) else DeviceTransform
    return _CLASSES[value.type]  # type: ignore[attr-defined]


def argument_of(value: Any) -> Any:
    """Make an object of a mapping, and a tuple of a list; anything else stays as it is.

    Raises:
        ArgumentError: If the class refuses one of the values.
    """
    if isinstance(value, Settings):
        arguments = {name: argument_of(item) for name, item in value.given().items()}
        return _class_of(value)(**arguments)
    return tuple(value) if isinstance(value, list) else value
