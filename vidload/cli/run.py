"""``vidload run``: drive the loader of a configuration with a made-up training step, and say how long it waits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vidload.cli.drive import EpochMeter, drive
from vidload.cli.override import Overrides, parse_overrides

if TYPE_CHECKING:
    from vidload.config.models import Config

__all__ = ["command"]

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it: 128 + SIGINT."""

_COLUMNS = ("epoch", "batches", "first wait", "mean wait", "clips/s", "frames/s")


def command(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A YAML file; see docs/configs.md.")],
    overrides: Overrides = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs to run; by default the configuration's, or one.")] = None,
    steps: Annotated[int | None, typer.Option(help="Batches of each epoch to run; by default all.")] = None,
    step_seconds: Annotated[float | None, typer.Option(help="Length of the made-up training step.")] = None,
    headroom: Annotated[
        bool, typer.Option("--headroom", help="Say how much faster it would be with an infinitely fast loader.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
) -> None:
    """Drive the loader of a configuration with a made-up training step.

    Prints for each epoch the wait before the first batch, the mean wait before the others, clips/s and frames/s.
    Ctrl-C ends the run and prints what was measured until then.
    """
    from vidload.config.load import load_config

    values = parse_overrides(overrides or ())
    options = {"run.epochs": epochs, "run.steps": steps, "run.step_seconds": step_seconds}
    values.update({key: value for key, value in options.items() if value is not None})
    settings = load_config(config, values)
    run_epochs = settings.run.epochs or settings.loader.epochs or 1
    # The loader is told how many epochs are run, so that it loads nothing beyond them.
    settings = settings.model_copy(update={"loader": settings.loader.model_copy(update={"epochs": run_epochs})})
    if headroom:
        _measure_headroom(settings, config, as_json=as_json)
        return
    meters: list[EpochMeter] = []
    interrupted = False
    try:
        _run(settings, config, meters, run_epochs, quiet=as_json)
    except KeyboardInterrupt:
        interrupted = True
    if as_json:
        summary = {"config": str(config), "step_seconds": settings.run.step_seconds, "interrupted": interrupted}
        print(json.dumps({**summary, "epochs": [meter.summary() for meter in meters]}, indent=2))
    if interrupted:
        typer.echo(f"interrupted in epoch {max(len(meters) - 1, 0)} of {run_epochs}, counted from 0", err=True)
        raise typer.Exit(INTERRUPTED)


def _measure_headroom(settings: Config, path: Path, *, as_json: bool) -> None:
    import time

    from vidload.config.load import build_loader
    from vidload.report.headroom import measure_headroom

    seconds = settings.run.step_seconds
    if not seconds:
        raise typer.BadParameter(
            "give the length of a step: --step-seconds, or run.step_seconds", param_hint="--headroom"
        )
    with build_loader(settings, path) as loader:
        batches = len(loader) * (settings.loader.epochs or 1)
        warmup = min(5, batches // 4)
        found = measure_headroom(loader, lambda batch: time.sleep(seconds), batches - warmup, warmup=warmup)
    if as_json:
        figures = {"steps": found.steps, "loaded_s": found.loaded, "replayed_s": found.replayed, "faster": found.faster}
        print(json.dumps({"config": str(path), "step_seconds": seconds, **figures}, indent=2))
    else:
        typer.echo(str(found))


def _run(settings: Config, path: Path, meters: list[EpochMeter], epochs: int, *, quiet: bool) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from vidload.config.load import build_loader

    console = Console(stderr=quiet)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    printed: list[EpochMeter] = []

    def show(meter: EpochMeter) -> None:
        if not quiet:
            printed.append(meter)
            console.print(_row(len(printed) - 1, meter), highlight=False, soft_wrap=True)

    with build_loader(settings, path) as loader:
        steps = min(settings.run.steps or len(loader), len(loader))
        if not quiet:
            console.print(
                f"{epochs} epochs of {steps} batches, {settings.run.step_seconds:g} s a step", highlight=False
            )
            console.print("".join(f"{name:>12}" for name in _COLUMNS), highlight=False, soft_wrap=True)
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("batches", total=epochs * steps)
            try:
                drive(
                    loader,
                    meters,
                    epochs=epochs,
                    steps=steps,
                    step_seconds=settings.run.step_seconds,
                    on_step=lambda: progress.advance(task),
                    on_epoch=show,
                )
            except KeyboardInterrupt:
                for meter in meters[len(printed) :]:
                    show(meter)
                raise


def _row(epoch: int, meter: EpochMeter) -> str:
    mean = "-" if meter.mean_wait is None else f"{meter.mean_wait:.4f} s"
    rates = [f"{count / meter.seconds:.2f}" if meter.seconds else "-" for count in (meter.clips, meter.frames)]
    cells = (str(epoch), str(len(meter.waits)), f"{meter.first_wait:.4f} s", mean, *rates)
    return "".join(f"{cell:>12}" for cell in cells)
