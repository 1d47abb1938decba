from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.films import FilmFolder
from vidload.cli.app import app
from vidload.errors import ArgumentError, EmptySourceError, StrictIndexError
from vidload.index.reader import VideoIndex


@pytest.fixture
def films(film_file: FilmFolder, tmp_path: Path) -> Path:
    """Two films in two classes, one with a name that rich would take for markup."""
    for name, place in (("h264_bframes", "dogs/[red] 50%.mp4"), ("hevc", "cats/a.mp4")):
        (tmp_path / "films" / place).parent.mkdir(parents=True)
        shutil.copy2(film_file(name), tmp_path / "films" / place)
    return tmp_path / "films"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["index", *map(str, arguments), "--workers", "0"])


def test_an_index_is_written_and_summed_up(films: Path) -> None:
    result = run(films, "-o", films / "x.index")
    assert result.exit_code == 0
    assert f"{films}/x.index: 2 videos, 160 frames, 0.00 hours; " in result.stdout
    assert "(2 files read, 0 reused, 0 skipped)" in result.stdout
    assert result.stderr == ""
    assert len(VideoIndex(films / "x.index")) == 2


def test_skipped_files_are_listed_and_the_status_is_3(films: Path) -> None:
    (films / "[bold] bad.mp4").write_text("no film")
    result = run(films, "-o", films / "x.index")
    assert result.exit_code == 3
    assert result.stderr.startswith(f"skipped: {films}/[bold] bad.mp4: can't be read")
    assert "(2 files read, 0 reused, 1 skipped)" in result.stdout
    assert len(VideoIndex(films / "x.index")) == 2


def test_strict_writes_nothing(films: Path) -> None:
    (films / "bad.mp4").write_text("no film")
    result = run(films, "-o", films / "x.index", "--strict")
    assert isinstance(result.exception, StrictIndexError)
    assert not (films / "x.index").exists()


def test_update_reads_what_is_new(films: Path, film_file: FilmFolder) -> None:
    run(films, "-o", films / "x.index")
    shutil.copy2(film_file("h264_intra"), films / "new.mp4")
    result = run(films, "-o", films / "x.index", "--update")
    assert "(1 files read, 2 reused, 0 skipped)" in result.stdout


def test_labels_come_from_folders_where_asked(films: Path) -> None:
    run(films, "-o", films / "x.index", "--labels-from-folder")
    assert VideoIndex(films / "x.index").classes == ["cats", "dogs"]


def test_several_sources_are_taken(films: Path) -> None:
    run(films / "dogs/[red] 50%.mp4", films / "cats", films / "**" / "*.mp4", "--out", films / "x.index")
    assert len(VideoIndex(films / "x.index")) == 4


def test_a_missing_source_is_an_error(films: Path) -> None:
    assert isinstance(run(films / "none", "-o", films / "x.index").exception, EmptySourceError)


def test_swapped_arguments_overwrite_no_film(films: Path) -> None:
    assert isinstance(run(films, "-o", films / "cats/a.mp4").exception, ArgumentError)


def test_the_command_exits_with_1_and_one_message_on_errors(tmp_path: Path) -> None:
    code = "from vidload.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "index", str(tmp_path), "-o", str(tmp_path / "x.index")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"error: {tmp_path}: there is no video in this folder")
    assert "Traceback" not in done.stderr
