"""Values given beside a configuration file, which go before what the file says."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from vidload.config.document import KeyPath
from vidload.config.problems import no_such_key, section_keys
from vidload.errors import ConfigError

__all__ = ["apply_overrides"]


def apply_overrides(values: Mapping[Any, Any], overrides: Mapping[str, Any]) -> tuple[dict[Any, Any], list[KeyPath]]:
    """Put overrides into a file's values.

    Args:
        values: The file's top mapping; left as it is.
        overrides: Values by key: dotted (``loader.num_workers``, ``dataset.clips.stride``), or by its last part alone
            where that is a key of a section (``num_workers``). Such a key is set in every section that has it. A
            section (``loader``) with a mapping sets each of the mapping's keys.

    Returns:
        The new values, and the keys that were set.

    Raises:
        ConfigError: If there is no such key.
    """
    merged = copy.deepcopy(dict(values))
    keys = []
    for name, value in _flattened(overrides):
        for key in _resolve(name):
            _put(merged, key, value, name)
            keys.append(key)
    return merged, keys


def _flattened(overrides: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in overrides.items():
        if name in section_keys() and isinstance(value, Mapping):
            yield from ((f"{name}.{key}", inner) for key, inner in value.items())
        else:
            yield name, value


def _resolve(name: str) -> Iterator[KeyPath]:
    sections = section_keys()
    section, *rest = name.split(".")
    if rest:
        if section not in sections:
            raise ConfigError(f"override {name}: {no_such_key((section,), sections)}")
        if rest[0] not in sections[section]:
            raise ConfigError(f"override {name}: {no_such_key((section, rest[0]), sections[section])}")
        yield (section, *rest)
        return
    found = [place for place, names in sections.items() if name in names]
    if not found:
        if name in sections:
            raise ConfigError(f"override {name}: give a mapping of its keys: {', '.join(sections[name])}")
        names = [*sections, *(key for keys in sections.values() for key in keys)]
        raise ConfigError(f"override {name}: {no_such_key((name,), set(names))}")
    for place in found:
        yield (place, name)


def _put(values: Any, key: KeyPath, value: Any, name: str) -> None:
    for depth, part in enumerate(key[:-1], start=1):
        if values.get(part) is None:
            values[part] = {}
        values = values[part]
        if not isinstance(values, dict):
            above = ".".join(map(str, key[:depth]))
            raise ConfigError(f"override {name}: {above} is {values!r} and has no keys; override {above} as a whole")
    values[key[-1]] = value
