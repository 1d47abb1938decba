"""``vidload check``: read every film once, and say what would fail or surprise in training."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vidload.check.films import FilmReport

__all__ = ["command"]

EXIT_BAD = 3
"""Exit status when some film is bad."""

_SHOWN = 3


def command(
    sources: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="An index; or films, folders, globs and lists, as for index.")
    ],
    exclude_bad: Annotated[
        Path | None, typer.Option("--exclude-bad", help="Write an index of the films that aren't bad here.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that decode; one per core by default.", show_default=False)
    ] = None,
    film_timeout: Annotated[
        float, typer.Option(min=0.001, help="Seconds a film may take before it counts as one that can't be read.")
    ] = 21600.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Decode every film to its last frame, and report what would fail or surprise in training.

    Bad is a film that can't be read, has frames that are damaged or of another size than the first, or lacks some that
    its header promises: then the exit status is 3. All else is told for your information.
    """
    from vidload.check.films import check_films

    reports = check_films(
        sources, exclude_bad=exclude_bad, num_workers=workers, film_timeout=film_timeout, progress=True
    )
    if as_json:
        print(json.dumps(_as_json(reports), indent=2))
    else:
        _print(reports)
    if any(report.bad for report in reports):
        raise typer.Exit(EXIT_BAD)


def _as_json(reports: Sequence[FilmReport]) -> dict[str, object]:
    return {
        "films": [
            {
                "path": report.path,
                "num_frames": report.num_frames,
                "bad": report.bad,
                "findings": [finding._asdict() for finding in report.findings],
            }
            for report in reports
        ],
        "num_films": len(reports),
        "num_bad": sum(report.bad for report in reports),
    }


def _print(reports: Sequence[FilmReport]) -> None:
    notes: dict[str, list[str]] = defaultdict(list)
    for report in reports:
        for finding in report.findings:
            line = f"{report.path}: {finding.message}"
            if finding.bad:
                typer.secho(f"bad ({finding.kind}): {line}", fg="red")
            else:
                notes[finding.kind].append(line)
    for kind, lines in notes.items():
        typer.echo(f"{kind}: {len(lines)} film{'s' if len(lines) > 1 else ''}")
        for line in lines[:_SHOWN]:
            typer.echo(f"  {line}")
        if len(lines) > _SHOWN:
            typer.echo(f"  and {len(lines) - _SHOWN} more (--json names all)")
    bad = sum(report.bad for report in reports)
    frames = sum(report.num_frames for report in reports)
    typer.echo(f"{len(reports):,} films, {frames:,} frames: {bad:,} bad, {len(reports) - bad:,} good")
