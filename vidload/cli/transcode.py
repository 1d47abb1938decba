"""``vidload transcode``: rewrite films for training."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from vidload.transcode.folder import Outcome
    from vidload.transcode.gain import Gain

__all__ = ["command"]


def command(
    sources: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Films, folders, globs and lists, as for index.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the films; those below the sources keep theirs.")
    ],
    codec: Annotated[str, typer.Option(help="libx264, libx265, libsvtav1 or libvpx-vp9.")] = "libx264",
    gop: Annotated[int, typer.Option(min=1, help="Frames from one keyframe to the next, at most.")] = 12,
    short_side: Annotated[
        int | None,
        typer.Option(min=16, help="Length of the short side where it is longer; by default the size is kept."),
    ] = None,
    crf: Annotated[int | None, typer.Option(min=0, help="Quality; smaller is better. By default the codec's.")] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Films at a time; one per core by default.")
    ] = None,
    index: Annotated[Path | None, typer.Option(help="Build an index of the result here.")] = None,
    labels_from_folder: Annotated[bool, typer.Option("--labels-from-folder", help="As in `vidload index`.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Rewrite films for training: short GOPs, smaller pictures, no audio; same frames at the same times.

    A film that was rewritten before, with these settings and from the source as it is now, stays as it is; so a run
    that was interrupted goes on. Films that fail are listed, the others are written, and the exit status is 1.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from vidload.index.build import build_index
    from vidload.transcode.film import Settings
    from vidload.transcode.folder import plan_targets, transcode_films
    from vidload.transcode.gain import measure_gain

    settings = Settings(codec, gop, crf, short_side)
    targets = plan_targets(sources, out)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("films", total=len(targets))
        outcome = transcode_films(targets, settings, jobs=jobs, on_film=lambda source: progress.advance(task))
    gain = measure_gain(outcome.pairs) if outcome.pairs else None
    if index is not None and outcome.pairs:
        build_index([str(out)], index, label_from="folder" if labels_from_folder else "none").close()
    _report(outcome, gain, as_json=as_json)
    if outcome.failed:
        raise typer.Exit(1)


def _report(outcome: Outcome, gain: Gain | None, *, as_json: bool) -> None:
    if as_json:
        figures = None if gain is None else {k: None if math.isnan(v) else v for k, v in asdict(gain).items()}
        print(
            json.dumps(
                {
                    "written": {str(source): str(target) for source, target in outcome.written.items()},
                    "done_before": {str(source): str(target) for source, target in outcome.done.items()},
                    "failed": {str(source): reason for source, reason in outcome.failed.items()},
                    "gain": figures,
                },
                indent=2,
            )
        )
        return
    for reason in outcome.failed.values():
        typer.secho(f"failed: {reason}", fg="red", err=True)
    typer.echo(f"{len(outcome.written)} written, {len(outcome.done)} done before, {len(outcome.failed)} failed")
    if gain is None:
        return
    share = gain.bytes_after / gain.bytes_before
    typer.echo(f"{gain.bytes_before / 1e6:.1f} MB became {gain.bytes_after / 1e6:.1f} MB ({share:.2f} of it)")
    if math.isnan(gain.speedup):
        typer.echo("no film is long enough to measure a clip of 16 frames at stride 4")
    else:
        typer.echo(
            f"a clip of 16 frames at stride 4, 224 × 224: {gain.seconds_before * 1000:.1f} ms became "
            f"{gain.seconds_after * 1000:.1f} ms of CPU time, {gain.speedup:.1f} times as fast"
        )
