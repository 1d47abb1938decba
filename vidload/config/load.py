"""From a configuration file to the loader it describes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from vidload.config.document import read_document
from vidload.config.models import Config
from vidload.config.overrides import apply_overrides
from vidload.config.problems import describe_problems, key_name
from vidload.config.values import argument_of
from vidload.errors import ArgumentError, ConfigError
from vidload.transforms.geometry import make_geometry

if TYPE_CHECKING:
    from vidload.dataset import Clip
    from vidload.loader.loader import VideoLoader
    from vidload.loader.span import Span

__all__ = ["build_loader", "from_config", "load_config"]


def load_config(path: str | os.PathLike[str], overrides: Mapping[str, Any] | None = None) -> Config:
    """Read and check a configuration file.

    Args:
        path: A YAML file.
        overrides: Values that go before the file's; see `from_config`.

    Returns:
        The configuration; its index path is absolute.

    Raises:
        ConfigError: If the file can't be read, a key doesn't exist or a value can't work; one line for each problem.
    """
    document = read_document(path)
    values, overridden = apply_overrides(document.values, overrides or {})
    for section in Config.model_fields:
        if section in values and values[section] is None:
            values[section] = {}
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        lines = []
        for key, problem in describe_problems(error):
            own = any(key[: len(name)] == name for name in overridden)
            where = f"{document.path}, overridden" if own else document.place(key)
            lines.append(f"{where}: {key_name(key)}: {problem}")
        raise ConfigError("\n".join(lines)) from error
    for name in ("clips", "size"):
        with _naming(f"{document.place(('dataset', name))}: dataset.{name}"):
            value = argument_of(getattr(config.dataset, name))
            if name == "size":
                make_geometry(value)
    with _naming(f"{document.place(('loader', 'device_transform'))}: loader.device_transform"):
        argument_of(config.loader.given().get("device_transform"))
    folder = os.curdir if ("dataset", "index") in overridden else os.path.dirname(document.path)
    index = os.path.abspath(os.path.join(folder, os.path.expanduser(config.dataset.index)))
    return config.model_copy(update={"dataset": config.dataset.model_copy(update={"index": index})})


def from_config(
    path: str | os.PathLike[str],
    *,
    transform: Callable[[Clip], Any] | None = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    worker_init_fn: Callable[[int], Any] | None = None,
    device_transform: Callable[[Any], Any] | None = None,
    trace: Callable[[Span], None] | None = None,
    **overrides: Any,
) -> VideoLoader:
    """Make the loader that a configuration file describes.

    Args:
        path: A YAML file; see docs/configs.md. A relative index path in it counts from the file's folder.
        transform: As in `vidload.ClipDataset`; a file can't hold a function.
        collate_fn: As in `vidload.VideoLoader`.
        worker_init_fn: As in `vidload.VideoLoader`.
        device_transform: As in `vidload.VideoLoader`; goes before the file's.
        trace: As in `vidload.VideoLoader`.
        **overrides: Values that go before the file's, as a YAML file would give them: by the argument's name
            (``num_workers=4``) or by the full key (``**{"loader.num_workers": 4, "dataset.clips.stride": 2}``). An
            index path given here counts from the current folder.

    Raises:
        ConfigError: If the file can't be read, a key doesn't exist or a value can't work.
        IndexFormatError: If the index isn't one.
    """
    config = load_config(path, overrides)
    return build_loader(
        config,
        path,
        transform=transform,
        collate_fn=collate_fn,
        worker_init_fn=worker_init_fn,
        device_transform=device_transform,
        trace=trace,
    )


def build_loader(
    config: Config,
    path: str | os.PathLike[str],
    *,
    transform: Callable[[Clip], Any] | None = None,
    collate_fn: Callable[[list[Any]], Any] | None = None,
    worker_init_fn: Callable[[int], Any] | None = None,
    device_transform: Callable[[Any], Any] | None = None,
    trace: Callable[[Span], None] | None = None,
) -> VideoLoader:
    """Make the loader that a configuration describes.

    Args:
        config: As `load_config` gives it.
        path: The file it comes from, for messages.
        transform: As in `from_config`.
        collate_fn: As in `from_config`.
        worker_init_fn: As in `from_config`.
        device_transform: As in `from_config`.
        trace: As in `from_config`.

    Raises:
        ConfigError: If a value can't work.
        IndexFormatError: If the index isn't one.
    """
    from vidload.dataset import ClipDataset
    from vidload.loader.loader import VideoLoader

    arguments = {name: argument_of(value) for name, value in config.dataset.given().items()}
    with _naming(f"{os.fspath(path)}: dataset"):
        dataset = ClipDataset(**arguments, transform=transform)
    with _naming(f"{os.fspath(path)}: loader"):
        arguments = {name: argument_of(value) for name, value in config.loader.given().items()}
        if device_transform is not None:
            arguments["device_transform"] = device_transform
        return VideoLoader(dataset, **arguments, collate_fn=collate_fn, worker_init_fn=worker_init_fn, trace=trace)


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Say where in the configuration an argument stands that a class refuses."""
    try:
        yield
    except ArgumentError as error:
        raise ConfigError(f"{where}: {error}") from error
