"""From a configuration's values to what the classes take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vidload.clips.samplers import DenseClips, RandomClips, SparseFrames, UniformClips
from vidload.config.models import Settings
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


def argument_of(value: Any) -> Any:
    """Make a sampler or geometry of a mapping with a `type`, and a tuple of a list; anything else stays as it is.

    Raises:
        ArgumentError: If the class refuses one of the values.
    """
    if isinstance(value, Settings):
        arguments = {name: argument_of(item) for name, item in value.given().items()}
        return _CLASSES[value.type](**arguments)  # type: ignore[attr-defined]
    return tuple(value) if isinstance(value, list) else value
