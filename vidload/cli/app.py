"""The ``vidload`` command: its subcommands, and how errors leave it."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import vidload
from vidload.cli import check, config, doctor, index, inspect, run, top, transcode
from vidload.errors import VidloadError

__all__ = ["app", "main"]

app = typer.Typer(
    name="vidload",
    help="Clips of long videos for PyTorch training, with no wait at any epoch.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("check")(check.command)
app.command("doctor")(doctor.command)
app.command("index")(index.command)
app.command("inspect")(inspect.command)
app.command("run")(run.command)
app.command("top")(top.command)
app.command("transcode")(transcode.command)
app.add_typer(config.app, name="config")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"vidload {vidload.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options that belong to no subcommand."""


def main() -> None:
    """Run the command line.

    An error that vidload raises on purpose is printed without a traceback, and the exit status is 1; wrong usage gives
    2. With ``VIDLOAD_TRACEBACK=1`` in the environment the traceback is shown too.
    """
    try:
        app(prog_name="vidload")
    except VidloadError as error:
        if os.environ.get("VIDLOAD_TRACEBACK") == "1":
            raise
        for line in str(error).splitlines():
            typer.secho(f"error: {line}", fg="red", err=True)
        sys.exit(1)
