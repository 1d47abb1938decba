"""``vidload config``: what a configuration may hold, and what one does hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from vidload.cli.override import Overrides, parse_overrides

__all__ = ["app"]

app = typer.Typer(help="Look at configurations.", no_args_is_help=True)


@app.command()
def schema() -> None:
    """Print the JSON schema of configurations; editors check and complete YAML files with it."""
    from vidload.config.models import Config

    print(json.dumps(Config.model_json_schema(), indent=2))


@app.command()
def show(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A YAML file; see docs/configs.md.")],
    overrides: Overrides = None,
) -> None:
    """Check a configuration and print what is set, the index's path made absolute."""
    import yaml

    from vidload.config.load import load_config

    settings = load_config(config, parse_overrides(overrides or ()))
    print(yaml.safe_dump(settings.model_dump(exclude_unset=True), sort_keys=False), end="")
