"""Reading a YAML file as plain data, with the line of every key."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import yaml

from vidload.errors import ConfigError

__all__ = ["Document", "KeyPath", "parse_value", "read_document"]

KeyPath = tuple[str | int, ...]
"""Keys, and positions in lists, that lead from the top of a file to a value."""


@dataclass(frozen=True)
class Document:
    """What a file holds.

    Attributes:
        path: The file.
        values: Its top mapping.
        lines: Line of each key, from 1.
    """

    path: str
    values: dict[Any, Any]
    lines: dict[KeyPath, int]

    def place(self, key: KeyPath) -> str:
        """``file:line`` of a key, or of the nearest one above it that the file has."""
        while key and key not in self.lines:
            key = key[:-1]
        return f"{self.path}:{self.lines[key]}" if key else self.path


def read_document(path: str | os.PathLike[str]) -> Document:
    """Read a configuration file.

    Raises:
        ConfigError: If it can't be read, isn't YAML, holds a key twice, or isn't a mapping.
    """
    path = os.fspath(path)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start}); a configuration is a YAML file") from error
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror or error}; give a YAML file") from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        lines: dict[KeyPath, int] = {}
        if root is not None:
            _note_lines(path, root, (), lines, [])
        values = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = ", ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(f"{path}{f':{mark.line + 1}' if mark else ''}: not valid YAML: {what}") from error
    except ConfigError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    if values is None:
        raise ConfigError(f"{path}: empty; give at least dataset: {{index: ...}}")
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: holds a {_kind(values)} at its top; give a mapping with dataset, loader and run")
    return Document(path, values, lines)


def parse_value(text: str) -> Any:
    """Read the value of ``key=value`` as a file's value is read: ``4`` is a number, ``[1, 2]`` a list.

    Raises:
        ConfigError: If it isn't valid YAML.
    """
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = getattr(error, "problem", None) or "not understood"
        raise ConfigError(f"{text!r} is not a valid YAML value: {problem}") from error


def _note_lines(path: str, node: yaml.Node, key: KeyPath, lines: dict[KeyPath, int], seen: list[yaml.Node]) -> None:
    if any(node is other for other in seen):
        return  # an alias
    if isinstance(node, yaml.SequenceNode):
        seen.append(node)
        for position, item in enumerate(node.value):
            _note_lines(path, item, _note(lines, (*key, position), item), lines, seen)
    elif isinstance(node, yaml.MappingNode):
        seen.append(node)
        first: dict[str, int] = {}
        for name, value in node.value:
            if isinstance(name, yaml.ScalarNode):
                inner = _note(lines, (*key, name.value), name)
                if name.value in first:
                    full = ".".join(map(str, inner))
                    raise ConfigError(f"{path}:{lines[inner]}: {full}: given twice, first in line {first[name.value]}")
                first[name.value] = lines[inner]
                _note_lines(path, value, inner, lines, seen)


def _note(lines: dict[KeyPath, int], key: KeyPath, node: yaml.Node) -> KeyPath:
    lines[key] = node.start_mark.line + 1
    return key


def _kind(value: Any) -> str:
    return {list: "list", str: "text", bool: "truth value"}.get(type(value), "number")
