from __future__ import annotations

import json
import shutil
from pathlib import Path

from typer.testing import CliRunner

import vidload
from tests.films import FilmFolder
from vidload.cli.app import app

RUNNER = CliRunner()


def test_films_are_rewritten_indexed_and_reported(film_file: FilmFolder, tmp_path: Path) -> None:
    (tmp_path / "films" / "cats").mkdir(parents=True)
    (tmp_path / "films" / "dogs").mkdir()
    shutil.copy(film_file("h264_bframes"), tmp_path / "films" / "cats" / "a.mp4")
    shutil.copy(film_file("h264_one_gop"), tmp_path / "films" / "dogs" / "b.mp4")
    arguments = ["transcode", str(tmp_path / "films"), "-o", str(tmp_path / "out"), "--gop", "6", "--short-side", "64"]
    index = tmp_path / "out.index"
    result = RUNNER.invoke(app, [*arguments, "--index", str(index), "--labels-from-folder"])
    assert result.exit_code == 0, result.output
    assert "2 written, 0 done before, 0 failed" in result.output
    assert "times as fast" in result.output
    with vidload.VideoIndex(index) as found:
        assert [video.num_frames for video in found] == [100, 300]
        assert found.classes == ["cats", "dogs"]
    (tmp_path / "films" / "broken.mp4").write_bytes(b"no film")
    result = RUNNER.invoke(app, [*arguments, "--json"])
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert (len(told["written"]), len(told["done_before"])) == (0, 2)
    assert list(told["failed"]) == [str(tmp_path / "films" / "broken.mp4")]
    assert told["gain"]["speedup"] > 0
