from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.films import FilmFolder
from vidload.cli import inspect
from vidload.cli.app import app
from vidload.errors import EmptySourceError, IndexFormatError, UnreadableVideoError
from vidload.index.build import build_index
from vidload.index.demux import demux_video
from vidload.index.format import facts_of, write_index


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["inspect", *map(str, arguments)], env={"COLUMNS": "400"})


def as_json(*arguments: object) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_film_is_described(film_file: FilmFolder) -> None:
    path = film_file("h264_bframes")
    found = as_json(path)
    assert found["path"] == str(path)
    assert (found["codec"], found["pix_fmt"], found["width"], found["height"]) == ("h264", "yuv420p", 256, 128)
    assert (found["fps"], found["constant_fps"], found["frames"], found["duration_s"]) == (25.0, True, 100, 4.0)
    assert found["file_bytes"] == path.stat().st_size
    assert 0 < found["disposable_share"] < 1
    assert found["gop"]["min"] <= found["gop"]["median"] <= found["gop"]["max"] <= 100


def test_a_variable_rate_is_told_from_a_constant_one(film_file: FilmFolder) -> None:
    assert as_json(film_file("h264_variable"))["constant_fps"] is False
    assert "variable" in run(film_file("h264_variable")).stdout
    assert ", constant" in run(film_file("h264_intra")).stdout


def test_intra_film_costs_one_packet_a_frame(film_file: FilmFolder) -> None:
    found = as_json(film_file("h264_intra"))
    assert found["clip"] == {
        "frames": 16,
        "stride": 4,
        "packets_per_frame": 1.0,
        "packets_per_frame_without_dropping": 1.0,
    }
    assert found["gop"] == {"min": 1, "median": 1.0, "max": 1}


def test_a_long_gop_and_a_long_stride_cost_more(film_file: FilmFolder) -> None:
    path = film_file("h264_one_gop")
    near, far = as_json(path, "--frames", 4, "--stride", 1), as_json(path, "--frames", 4, "--stride", 8)
    assert (near["clip"]["frames"], near["clip"]["stride"]) == (4, 1)
    assert near["gop"] == {"min": 300, "median": 300.0, "max": 300}
    assert 1 < near["clip"]["packets_per_frame"] < far["clip"]["packets_per_frame"]
    assert far["clip"]["packets_per_frame"] < far["clip"]["packets_per_frame_without_dropping"]


@pytest.mark.parametrize(("frames", "stride"), [(1, 1), (1000, 1), (2, 1000), (60, 1), (61, 7)])
def test_a_clip_longer_than_the_film_has_as_many_frames_as_fit(film_file: FilmFolder, frames: int, stride: int) -> None:
    kept, all_of_them = inspect.clip_cost(demux_video(film_file("hevc")), frames, stride, 5)
    assert 1 <= kept <= all_of_them


def test_the_table_names_what_is_shown(film_file: FilmFolder, tmp_path: Path) -> None:
    path = tmp_path / "[red] film.mp4"
    shutil.copy2(film_file("h264_bframes"), path)
    text = run(path).stdout
    assert f"{path} (" in text
    for line in ("codec", "size as shown", "frame rate", "duration", "GOP length", "disposable", "clip of 16 at 4"):
        assert f"\n{line} " in text
    assert "256 x 128" in text
    assert "0:00:04.00, 100 frames in 100 packets" in text


def test_an_index_is_summed_up(film_file: FilmFolder, tmp_path: Path) -> None:
    for name in ("h264_bframes", "h264_variable", "hevc", "h264_mkv"):
        path = film_file(name)
        (tmp_path / name[:4]).mkdir(exist_ok=True)
        shutil.copy2(path, tmp_path / name[:4] / path.name)
    build_index(tmp_path, tmp_path / "x.index", label_from="folder", num_workers=0)
    found = as_json(tmp_path / "x.index")
    assert (found["videos"], found["frames"], found["constant_fps"]) == (4, 280, 3)
    assert found["codecs"] == {"h264": 3, "hevc": 1}
    assert found["sizes"] == {"128x64": 3, "256x128": 1}
    assert found["classes"] == ["h264", "hevc"]
    assert (found["columns"], found["unlabelled"], found["sampled_videos"]) == ([], 0, 4)
    assert found["frames_per_video"]["p0"] == 60
    assert found["frames_per_video"]["p100"] == 100
    assert found["index_bytes"] == (tmp_path / "x.index").stat().st_size
    assert 1 < found["clip"]["packets_per_frame"] < found["clip"]["packets_per_frame_without_dropping"]
    text = run(tmp_path / "x.index").stdout
    assert "h264: 3, hevc: 1" in text
    assert "128 x 64: 3, 256 x 128: 1" in text
    assert "2 classes with names" in text


def test_only_some_videos_of_a_large_index_are_looked_into(
    film_file: FilmFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect, "VIDEOS_OF_AN_INDEX", 3)
    build_index([film_file("h264_intra")] * 50, tmp_path / "x.index", num_workers=0)
    assert as_json(tmp_path / "x.index")["sampled_videos"] == 3
    assert "those of 3 videos, evenly chosen" in run(tmp_path / "x.index").stdout


def test_what_can_not_be_inspected_is_an_error(tmp_path: Path, film_file: FilmFolder) -> None:
    assert isinstance(run(tmp_path / "none.mp4").exception, UnreadableVideoError)
    (tmp_path / "bad.mp4").write_text("no film")
    assert isinstance(run(tmp_path / "bad.mp4").exception, UnreadableVideoError)
    build_index(film_file("hevc"), tmp_path / "x.index", num_workers=0)
    (tmp_path / "x.index").write_bytes((tmp_path / "x.index").read_bytes()[:-50])
    assert isinstance(run(tmp_path / "x.index").exception, IndexFormatError)
    write_index(str(tmp_path / "y.index"), facts_of([]), paths=[], labels=[])
    assert isinstance(run(tmp_path / "y.index").exception, EmptySourceError)
    assert run(film_file("hevc"), "--frames", 0).exit_code == 2
