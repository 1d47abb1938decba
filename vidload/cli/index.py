"""``vidload index``: build an index, or bring one up to date."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["command"]

EXIT_SKIPPED = 3
"""Exit status when the index was written without the files that can't be read."""


def command(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Video files, folders, globs, and lists of videos (.csv, .jsonl, .ndjson, .parquet; column 'path', "
            "if wanted 'label', others are kept).",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The index file.")],
    labels_from_folder: Annotated[
        bool, typer.Option("--labels-from-folder", help="Label videos with the first subfolder below the folder given.")
    ] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Read only files that are new or changed since the index was built.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Write nothing if any file can't be read.")] = False,
    stream: Annotated[
        int | None,
        typer.Option(min=0, help="Number of the stream to take; the best one by default.", show_default=False),
    ] = None,
    checksums: Annotated[
        bool, typer.Option("--checksums", help="Keep packets' checksums, so that loading notices changed bytes.")
    ] = False,
    file_timeout: Annotated[
        float, typer.Option(min=0.001, help="Seconds a file may take before it counts as one that can't be read.")
    ] = 600.0,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Processes that read files; one per core by default.", show_default=False)
    ] = None,
) -> None:
    """Read videos once and write what loading clips needs to know of them to an index.

    Files that can't be read are listed and left out, and the exit status is 3. With --strict, and after any other
    error, nothing is written and the exit status is 1.
    """
    from vidload.index.build import build_with_report

    start = time.perf_counter()
    report = build_with_report(
        sources,
        out,
        label_from="folder" if labels_from_folder else "none",
        update=update,
        strict=strict,
        stream=stream,
        checksums=checksums,
        file_timeout=file_timeout,
        num_workers=workers,
        progress=True,
    )
    seconds = time.perf_counter() - start
    for error in report.skipped.values():
        print(f"skipped: {error}", file=sys.stderr)
    index = report.index
    size = os.path.getsize(index.path)
    shown = os.fsencode(index.path).decode("utf-8", "replace")
    print(
        f"{shown}: {len(index):,} videos, {int(index.num_frames.sum()):,} frames, "
        f"{float(index.duration.sum()) / 3600:,.2f} hours; {size:,} bytes, {seconds:.1f} seconds "
        f"({report.read:,} files read, {report.reused:,} reused, {len(report.skipped):,} skipped)"
    )
    if report.skipped:
        raise typer.Exit(EXIT_SKIPPED)
