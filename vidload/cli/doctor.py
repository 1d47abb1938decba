"""``vidload doctor``: what is installed and works, and how to mend what doesn't."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from vidload.report.doctor import Finding

__all__ = ["command"]

_STYLES = {"ok": "green", "missing": "yellow", "broken": "red"}


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    require: Annotated[
        str, typer.Option(metavar="NAMES", help="Checks that have to be ok too, with commas: cuda,nvdec,dali.")
    ] = "",
) -> None:
    """Say what is installed and works: torch, decoders, GPU, memory, limits; and how to mend what doesn't.

    The exit status is 0 if all that vidload needs works, and all that --require names.
    """
    from vidload.report.doctor import CHECKS, check_names, diagnose, is_well

    required = [name.strip() for name in require.split(",") if name.strip()]
    check_names(required)
    findings = diagnose()
    well = is_well(findings, required)
    if as_json:
        needed = {name for name, check in CHECKS.items() if check.needed} | set(required)
        checks = [asdict(finding) | {"needed": finding.name in needed} for finding in findings]
        print(json.dumps({"ok": well, "checks": checks}, indent=2))
    else:
        _print(findings)
    if not well:
        raise typer.Exit(1)


def _print(findings: list[Finding]) -> None:
    if not sys.stdout.isatty():
        for finding in findings:
            print(
                f"{finding.status:8}{finding.name:12}{finding.detail}" + (f" -- {finding.fix}" if finding.fix else "")
            )
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None)
    for name in ("", "check", "found", "what to do"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        status = f"[{_STYLES[finding.status]}]{finding.status}[/]"
        table.add_row(status, finding.name, escape(finding.detail), escape(finding.fix))
    Console().print(table)
