"""Many films at a time: which go where, what is done already, and what failed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from vidload.errors import ArgumentError, VidloadError
from vidload.index.sources import resolve_sources
from vidload.transcode.film import Settings, is_done, transcode_film, unfinished_name

__all__ = ["Outcome", "plan_targets", "transcode_films"]

_REFUSED = 9
"""Exit status of a film's process that says what is wrong."""


@dataclass
class Outcome:
    """What became of films.

    Attributes:
        written: Sources that were rewritten now, and their targets.
        done: Sources that had been before, and their targets.
        failed: Sources that couldn't be, and why.
    """

    written: dict[Path, Path] = field(default_factory=dict)
    done: dict[Path, Path] = field(default_factory=dict)
    failed: dict[Path, str] = field(default_factory=dict)

    @property
    def pairs(self) -> dict[Path, Path]:
        """All sources that have a target now."""
        return {**self.done, **self.written}


def plan_targets(sources: Sequence[str], out: Path) -> dict[Path, Path]:
    """Where each film goes: below `out` as it lies below what its films have in common, with the ending .mp4.

    Raises:
        ArgumentError: If two films would become one.
        EmptySourceError: If there is no film.
    """
    films = [Path(source.path).resolve() for source in resolve_sources(list(sources))]
    root = Path(os.path.commonpath([film.parent for film in films]))
    targets: dict[Path, Path] = {}
    taken: dict[Path, Path] = {}
    for film in films:
        target = (out.resolve() / film.relative_to(root)).with_suffix(".mp4")
        if taken.setdefault(target, film) != film:
            raise ArgumentError(f"{taken[target]} and {film} would both become {target}; rename one")
        targets[film] = target
    return targets


def transcode_films(
    targets: dict[Path, Path],
    settings: Settings,
    *,
    jobs: int | None = None,
    on_film: Callable[[Path], None] = lambda source: None,
) -> Outcome:
    """Rewrite films, several at a time; those that fail don't stop the others.

    Args:
        targets: By source; see `plan_targets`.
        settings: How.
        jobs: Films at a time; by default one for each core.
        on_film: Called with each source when it is done, or has failed.
    """
    outcome = Outcome()
    waiting = []
    for source, target in targets.items():
        if is_done(source, target, settings):
            outcome.done[source] = target
            on_film(source)
        else:
            waiting.append(source)
    if not waiting:
        return outcome
    cores = len(os.sched_getaffinity(0))
    jobs = min(len(waiting), cores if jobs is None else jobs)
    settings = replace(settings, threads=max(1, cores // jobs))
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(_run_apart, source, targets[source], settings): source for source in waiting}
        try:
            for future in as_completed(futures):
                source, error = futures[future], future.result()
                if error is None:
                    outcome.written[source] = targets[source]
                else:
                    outcome.failed[source] = error
                on_film(source)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return outcome


def _run_apart(source: Path, target: Path, settings: Settings) -> str | None:
    """Rewrite a film in a process of its own: one that crashes an encoder costs no other. Returns the error, if any."""
    arguments = json.dumps([str(source), str(target), asdict(settings)])
    command = [sys.executable, "-c", "from vidload.transcode.folder import _main; _main()", arguments]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        return None
    # Killed, it couldn't clean up.
    unfinished_name(target).unlink(missing_ok=True)
    said = done.stderr.strip().splitlines() or ["it said nothing"]
    if done.returncode == _REFUSED:
        return said[-1]
    how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
    return f"{source}: its process ended by {how}: {said[-1]}"


def _main() -> None:
    source, target, settings = json.loads(sys.argv[1])
    try:
        transcode_film(Path(source), Path(target), Settings(**settings))
    except VidloadError as error:
        print(" ".join(str(error).splitlines()), file=sys.stderr)
        sys.exit(_REFUSED)
