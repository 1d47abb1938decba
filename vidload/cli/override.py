"""``--set KEY=VALUE``, as several commands take it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

__all__ = ["Overrides", "parse_overrides"]

Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A value that goes before the file's: --set loader.num_workers=4. Repeatable.",
    ),
]


def parse_overrides(texts: Iterable[str]) -> dict[str, Any]:
    """Read ``KEY=VALUE`` texts, each value as YAML.

    Raises:
        typer.BadParameter: If there is no ``=``.
        ConfigError: If a value isn't valid YAML.
    """
    from vidload.config.document import parse_value

    overrides = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise typer.BadParameter(f"{text!r}: give KEY=VALUE, such as loader.num_workers=4", param_hint="--set")
        overrides[key.strip()] = parse_value(value)
    return overrides
