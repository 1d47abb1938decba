"""Many films: where they go, what is done already, and what fails."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.films import FilmFolder
from tests.loader.faulty import wait_until
from vidload.errors import ArgumentError
from vidload.index.demux import demux_video
from vidload.synthetic import write_film
from vidload.transcode.film import Settings
from vidload.transcode.folder import plan_targets, transcode_films
from vidload.transcode.gain import measure_gain


@pytest.fixture
def sources(film_file: FilmFolder, tmp_path: Path) -> Path:
    folder = tmp_path / "films"
    for place, name in (("cats/one.mp4", "h264_bframes"), ("dogs/two.webm", "vp9")):
        (folder / place).parent.mkdir(parents=True)
        shutil.copy(film_file(name), folder / place)
    return folder


def test_folders_are_kept(sources: Path, tmp_path: Path) -> None:
    targets = plan_targets([str(sources)], tmp_path / "out")
    assert {str(path.relative_to(sources)): str(target.relative_to(tmp_path)) for path, target in targets.items()} == {
        "cats/one.mp4": "out/cats/one.mp4",
        "dogs/two.webm": "out/dogs/two.mp4",
    }


def test_two_films_that_would_become_one_are_refused(sources: Path, tmp_path: Path) -> None:
    shutil.copy(sources / "cats/one.mp4", sources / "cats/one.mkv")
    with pytest.raises(ArgumentError, match=r"would both become .*one.mp4; rename one"):
        plan_targets([str(sources)], tmp_path / "out")


def test_those_that_fail_stop_no_other_and_a_second_run_does_what_is_left(sources: Path, tmp_path: Path) -> None:
    (sources / "cats/broken.mp4").write_bytes(b"no film")
    targets = plan_targets([str(sources)], tmp_path / "out")
    seen: list[Path] = []
    first = transcode_films(targets, Settings(), jobs=2, on_film=seen.append)
    assert sorted(path.name for path in first.written) == ["one.mp4", "two.webm"]
    (failed,) = first.failed
    assert failed.name == "broken.mp4"
    assert "broken.mp4" in first.failed[failed]
    assert sorted(seen) == sorted(targets)
    (sources / "dogs/two.webm").touch()
    second = transcode_films(targets, Settings(), jobs=1)
    assert [path.name for path in second.done] == ["one.mp4"]
    assert [path.name for path in second.written] == ["two.webm"]
    assert len(second.pairs) == 2
    assert not list((tmp_path / "out").rglob("*.part"))


def test_a_run_that_is_killed_goes_on(film_file: FilmFolder, tmp_path: Path) -> None:
    """Nothing half-written looks done."""
    folder, out = tmp_path / "films", tmp_path / "out"
    folder.mkdir()
    shutil.copy(film_file("h264_variable"), folder / "a.mp4")
    write_film(folder / "b.mp4", 3000, width=320, height=192)
    code = (
        "import sys; from pathlib import Path\n"
        "from vidload.transcode.folder import plan_targets, transcode_films\n"
        "from vidload.transcode.film import Settings\n"
        f"transcode_films(plan_targets([{str(folder)!r}], Path({str(out)!r})), Settings(), jobs=1)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    try:
        wait_until(lambda: (out / "b.mp4.part").exists(), 60)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert not (out / "b.mp4").exists()
    outcome = transcode_films(plan_targets([str(folder)], out), Settings())
    assert [path.name for path in outcome.done] == ["a.mp4"]
    assert [path.name for path in outcome.written] == ["b.mp4"]
    assert demux_video(out / "b.mp4").num_frames == 3000
    assert sorted(path.name for path in out.iterdir()) == ["a.mp4", "b.mp4"]


def test_the_gain_is_measured(tmp_path: Path) -> None:
    source = write_film(tmp_path / "long.mp4", 300, width=640, height=384, gop=250, moving=True)
    targets = plan_targets([str(source)], tmp_path / "out")
    outcome = transcode_films(targets, Settings(gop=8, short_side=128))
    gain = measure_gain(outcome.pairs)
    assert gain.bytes_before == source.stat().st_size
    assert gain.speedup > 1.5
    assert gain.seconds_after < gain.seconds_before
