from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.decode.test_damage import damage
from tests.films import FilmFolder
from tests.index.test_checksums import change
from tests.reading_cases import CASES, FOLDER
from vidload import build_index
from vidload.check import FilmReport, check_films
from vidload.check.film import check_film
from vidload.cli.app import app
from vidload.errors import ArgumentError, UnreadableVideoError
from vidload.index import processes
from vidload.index.demux import demux_video
from vidload.index.reader import VideoIndex

KINDS = {
    "vfr_mp4": {"rate"},
    "rot90_mp4": {"rotation"},
    "rot270_mp4": {"rotation"},
    "sar_mp4": {"aspect"},
    "res_change_webm": {"size"},
    "hi10_h264_mp4": {"depth"},
    "main10_hevc_mp4": {"depth"},
    "full_range_mp4": {"colour"},
    "rgb_h264_mp4": {"colour"},
    "interlaced_mp4": {"interlaced"},
    "long_gop_mp4": {"gop"},
    "trim_hang_mp4": {"gop"},
    "dup_pts_mkv": {"times"},
    "corrupt_mid_mp4": {"corrupt"},
    "cut_mdat_mp4": {"unreadable"},
    "empty_mp4": {"unreadable"},
    "html_as_mp4": {"unreadable"},
    "no_moov_mp4": {"unreadable"},
    "audio_only_mp4": {"unreadable"},
}
"""What has to be found of a case, among other things; nothing bad of the others."""
BAD = {"unreadable", "corrupt", "size", "missing", "changed", "stale"}


@pytest.fixture(scope="module")
def reports() -> dict[str, FilmReport]:
    return {
        Path(report.path).name: report
        for report in check_films([FOLDER / case["file"] for case in CASES], num_workers=2)
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_what_is_odd_about_a_film_is_found(case: dict[str, Any], reports: dict[str, FilmReport]) -> None:
    report = reports[case["file"]]
    kinds = {finding.kind for finding in report.findings}
    wanted = KINDS.get(case["name"], set())
    assert wanted <= kinds, report.findings
    assert kinds & BAD == wanted & BAD, report.findings
    assert report.bad == bool(wanted & BAD)
    if not wanted & {"unreadable"}:
        assert report.num_frames == case["expect"]["frame_count"]


def test_a_plain_film_gives_no_finding(reports: dict[str, FilmReport]) -> None:
    assert reports["cfr_h264.mp4"].findings == ()


def test_corrupt_frames_are_named(reports: dict[str, FilmReport]) -> None:
    (finding,) = [finding for finding in reports["corrupt_mid.mp4"].findings if finding.bad]
    assert finding.message.startswith("damaged, or referring to what is: frames 14, 16,")


@pytest.mark.parametrize("name", ["h264_moving", "mpeg4_moving", "ffv1_mkv", "av1"])
def test_damage_is_found(name: str, film_file: FilmFolder, tmp_path: Path) -> None:
    import random

    path = Path(shutil.copy(film_file(name), tmp_path))
    damage(path, demux_video(path), 8, "zeros", random.Random(1))
    video = demux_video(path)
    assert "corrupt" in {finding.kind for finding in check_film(video)}


def test_a_film_without_keyframes_is_bad() -> None:
    (report,) = check_films([FOLDER.parent / "fuzz/found/no_keyframe.mp4"], num_workers=1)
    assert report.bad
    assert "without a keyframe before them: frame 0" in [finding.message for finding in report.findings]


def test_changed_and_stale_films_are_bad(film_file: FilmFolder, tmp_path: Path) -> None:
    paths = [Path(shutil.copy(film_file(name), tmp_path)) for name in ("hevc", "h264_bframes", "vp9")]
    with build_index(paths, tmp_path / "i", checksums=True, num_workers=0) as index:
        change(paths[0], index[0], 7)
    os.utime(paths[1], ns=(1, 1))
    first, second, third = check_films([tmp_path / "i"], num_workers=1)
    assert "changed" in {finding.kind for finding in first.findings}
    assert [finding.kind for finding in second.findings] == ["stale"]
    assert not third.bad


def test_a_crash_costs_its_film_only(film_file: FilmFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import os; from vidload.check import worker; check = worker.check_film\n"
        "worker.check_film = lambda video: os.kill(os.getpid(), 11) if 'hevc' in video.path else check(video)\n"
        "worker.main()"
    )
    build_index([film_file("hevc"), film_file("vp9")], tmp_path / "i", num_workers=0).close()
    monkeypatch.setattr(processes, "_START", f"exec({code!r})")
    first, second = check_films([tmp_path / "i"], num_workers=1)
    assert first.findings[0].message == "the process that decoded it crashed (signal 11, SIGSEGV)"
    assert signal.SIGSEGV == 11
    assert not second.findings


def test_bad_films_are_left_out_of_an_index(tmp_path: Path) -> None:
    folder = tmp_path / "films"
    for label, name in (
        ("cats", "cfr_h264.mp4"),
        ("cats", "corrupt_mid.mp4"),
        ("dogs", "vfr.mp4"),
        ("dogs", "empty.mp4"),
    ):
        (folder / label).mkdir(parents=True, exist_ok=True)
        shutil.copy(FOLDER / name, folder / label)
    with pytest.warns(UserWarning, match="left out"):
        build_index(folder, tmp_path / "all", label_from="folder", num_workers=0).close()
    reports = check_films([tmp_path / "all"], exclude_bad=tmp_path / "good", num_workers=1)
    assert [report.bad for report in reports] == [False, True, False]
    with VideoIndex(tmp_path / "good") as index:
        assert [Path(video.path).name for video in index] == ["cfr_h264.mp4", "vfr.mp4"]
        assert index.labels.tolist() == [0, 1]
        assert index.classes == ["cats", "dogs"]
    reports = check_films([folder], exclude_bad=tmp_path / "again", num_workers=2)
    assert sorted(Path(report.path).name for report in reports if report.bad) == ["corrupt_mid.mp4", "empty.mp4"]
    with VideoIndex(tmp_path / "again") as index:
        assert len(index) == 2
    (folder / "cats/cfr_h264.mp4").unlink()
    (folder / "dogs/vfr.mp4").unlink()
    with pytest.raises(UnreadableVideoError, match="all 2 films are bad"):
        check_films([folder], exclude_bad=tmp_path / "none", num_workers=1)


def test_arguments_are_checked() -> None:
    with pytest.raises(ArgumentError, match="num_workers=0"):
        check_films([FOLDER], num_workers=0)
    with pytest.raises(ArgumentError, match="film_timeout=0"):
        check_films([FOLDER], film_timeout=0)


def test_the_command_says_what_it_found(tmp_path: Path) -> None:
    for name in ("cfr_h264.mp4", "corrupt_mid.mp4", "rot90.mp4"):
        shutil.copy(FOLDER / name, tmp_path)
    done = CliRunner().invoke(app, ["check", str(tmp_path), "--workers", "1"])
    assert done.exit_code == 3, done.output
    assert f"bad (corrupt): {tmp_path}/corrupt_mid.mp4: damaged" in done.output
    assert f"rotation: 1 film\n  {tmp_path}/rot90.mp4: turned by 90 degrees for showing" in done.output
    assert done.output.splitlines()[-1] == "3 films, 125 frames: 1 bad, 2 good"
    done = CliRunner().invoke(app, ["check", str(tmp_path), "--json", "--exclude-bad", str(tmp_path / "good")])
    found = json.loads(done.stdout)
    assert (found["num_films"], found["num_bad"]) == (3, 1)
    assert {film["path"]: film["bad"] for film in found["films"]}[str(tmp_path / "corrupt_mid.mp4")]
    done = CliRunner().invoke(app, ["check", str(tmp_path / "good")])
    assert done.exit_code == 0, done.output
