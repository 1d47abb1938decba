from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

from tests.films import FilmFolder
from tests.index.videos import assert_same
from vidload.errors import (
    ArgumentError,
    EmptySourceError,
    IndexFormatError,
    NoVideoStreamError,
    StrictIndexError,
    UnreadableVideoError,
    VidloadError,
)
from vidload.index import build as build_module
from vidload.index.build import build_index, build_with_report
from vidload.index.demux import demux_video
from vidload.index.pool import demux_all
from vidload.index.reader import VideoIndex
from vidload.index.worker import Request


@pytest.fixture
def films(film_file: FilmFolder, tmp_path: Path) -> Path:
    """A folder of three short films in two classes."""
    for name, place in (("h264_bframes", "cats/b.mp4"), ("hevc", "cats/a.mp4"), ("h264_intra", "dogs/c.mp4")):
        (tmp_path / "films" / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(film_file(name), tmp_path / "films" / place)
    return tmp_path / "films"


@pytest.fixture
def demuxed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were demuxed, in order."""
    names: list[str] = []

    def recording(requests: list[Request], num_workers: int, *, timeout: float):  # type: ignore[no-untyped-def]
        names.extend(os.path.basename(request.path) for request in requests)
        return demux_all(requests, num_workers, timeout=timeout)

    monkeypatch.setattr(build_module, "demux_all", recording)
    return names


def spoil(path: Path) -> Path:
    path.write_bytes(b"this was never a film")
    return path


def test_an_index_holds_what_demuxing_finds(films: Path) -> None:
    index = build_index(films, films / "x.index", num_workers=2)
    assert len(index) == 3
    for row, name in enumerate(["cats/a.mp4", "cats/b.mp4", "dogs/c.mp4"]):
        assert_same(index[row], demux_video(films / name), apart_from=("id",))
    assert index.num_frames.tolist() == [60, 100, 60]


def test_the_order_and_the_bytes_do_not_depend_on_the_workers(films: Path) -> None:
    contents = []
    for num_workers in (0, 1, 3):
        build_index([films] * 5, films / "x.index", num_workers=num_workers)
        contents.append((films / "x.index").read_bytes())
    assert contents[0] == contents[1] == contents[2]


def test_folders_become_labels_in_sorted_order(films: Path) -> None:
    index = build_index(films, films / "x.index", label_from="folder", num_workers=0)
    assert index.classes == ["cats", "dogs"]
    assert index.labels.tolist() == [0, 0, 1]
    assert [video.label for video in index] == [0, 0, 1]


def test_columns_of_a_list_come_back_with_each_video(films: Path) -> None:
    (films / "list.csv").write_text("path,label,score,note\ncats/b.mp4,dog,1,\ndogs/c.mp4,cat,2.5,fine\n")
    index = build_index(films / "list.csv", films / "x.index", num_workers=0)
    assert index.columns == ["score", "note"]
    assert [video.extra for video in index] == [{"score": 1.0, "note": None}, {"score": 2.5, "note": "fine"}]
    assert index.classes == ["cat", "dog"]
    assert index.labels.tolist() == [1, 0]


def test_a_film_listed_several_times_has_several_rows_but_is_demuxed_once(films: Path, demuxed: list[str]) -> None:
    spoil(films / "bad.mp4")
    names = ["cats/b.mp4", "bad.mp4", "cats/b.mp4", "dogs/c.mp4", "bad.mp4", "cats/b.mp4", "dogs/c.mp4"]
    rows = "".join(f"{name},{number}\n" for number, name in enumerate(names))
    (films / "list.csv").write_text("path,label\n" + rows)
    report = build_with_report(films / "list.csv", films / "x.index", num_workers=0)
    assert report.index.labels.tolist() == [0, 2, 3, 5, 6]
    for row, number in enumerate([0, 2, 3, 5, 6]):
        assert_same(report.index[row], demux_video(films / names[number]), apart_from=("id", "label"))
    assert (report.read, report.reused, len(report.skipped)) == (2, 0, 1)
    assert demuxed == ["b.mp4", "bad.mp4", "c.mp4"]


def test_a_file_that_can_not_be_read_is_skipped_with_its_reason(films: Path, film_file: FilmFolder) -> None:
    bad = spoil(films / "bad.mp4")
    short = films / "cut.mp4"
    short.write_bytes(film_file("h264_bframes").read_bytes()[:2000])
    (films / "empty.mp4").touch()
    (films / "link.mp4").symlink_to("nowhere.mp4")
    skipped: dict[str, VidloadError] = {}
    report = build_with_report(films, films / "x.index", on_skip=skipped.__setitem__, num_workers=2)
    assert list(skipped) == [str(bad), str(short), str(films / "empty.mp4"), str(films / "link.mp4")]
    assert dict(report.skipped) == skipped
    assert all(path in str(error) for path, error in skipped.items())
    assert [os.path.basename(video.path) for video in report.index] == ["a.mp4", "b.mp4", "c.mp4"]


def test_skipped_files_are_warned_of_unless_someone_is_told(films: Path) -> None:
    spoil(films / "bad.mp4")
    with pytest.warns(UserWarning, match=r"(?s)1 files were left out of .*x\.index:.*bad\.mp4: can't be read"):
        build_index(films, films / "x.index", num_workers=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_index(films, films / "x.index", num_workers=0, on_skip=lambda path, error: None)


def test_strict_writes_nothing_if_a_file_can_not_be_read(films: Path) -> None:
    spoil(films / "bad.mp4")
    with pytest.raises(StrictIndexError, match=r"(?s)1 of the 4 files can't be read, no index is written.*bad\.mp4"):
        build_index(films, films / "out" / "x.index", strict=True, num_workers=0)
    assert os.listdir(films / "out") == []


def test_strict_keeps_the_index_that_was_there(films: Path) -> None:
    build_index(films, films / "x.index", strict=True, num_workers=0)
    before = (films / "x.index").read_bytes()
    spoil(films / "bad.mp4")
    with pytest.raises(StrictIndexError):
        build_index(films, films / "x.index", strict=True, update=True, num_workers=0)
    assert (films / "x.index").read_bytes() == before


def test_nothing_is_written_if_no_file_can_be_read(tmp_path: Path) -> None:
    for number in range(12):
        spoil(tmp_path / f"{number:02}.mp4")
    with pytest.raises(
        UnreadableVideoError, match=r"(?s)none of the 12 files can be read.*09\.mp4.*and 2 more"
    ) as caught:
        build_index(tmp_path, tmp_path / "x.index", num_workers=0)
    assert not isinstance(caught.value, NoVideoStreamError)
    assert not (tmp_path / "x.index").exists()


def test_an_empty_source_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(EmptySourceError):
        build_index(tmp_path, tmp_path / "x.index")
    assert os.listdir(tmp_path) == []


class TestUpdate:
    def test_only_new_and_changed_files_are_read(self, films: Path, film_file: FilmFolder, demuxed: list[str]) -> None:
        build_index(films, films / "x.index", num_workers=0)
        shutil.copy2(film_file("h264_mov"), films / "cats/new.mov")
        shutil.copy2(film_file("h264_one_gop"), films / "cats/b.mp4")
        demuxed.clear()
        report = build_with_report(films, films / "x.index", update=True, num_workers=0)
        assert demuxed == ["b.mp4", "new.mov"]
        assert (report.read, report.reused) == (2, 2)
        assert report.index.num_frames.tolist() == [60, 300, 60, 60]

    def test_the_result_is_the_same_as_built_anew(self, films: Path, film_file: FilmFolder) -> None:
        build_index([films] * 2, films / "x.index", num_workers=0)
        (films / "cats/a.mp4").unlink()
        shutil.copy2(film_file("h264_one_gop"), films / "cats/b.mp4")
        shutil.copy2(film_file("hevc_open_gop"), films / "cats/new.mp4")
        build_index([films] * 3, films / "x.index", label_from="folder", update=True, num_workers=0)
        build_index([films] * 3, films / "y.index", label_from="folder", num_workers=0)
        assert (films / "x.index").read_bytes() == (films / "y.index").read_bytes()

    def test_a_new_modification_time_alone_is_a_change(self, films: Path, demuxed: list[str]) -> None:
        build_index(films, films / "x.index", num_workers=0)
        os.utime(films / "dogs/c.mp4", ns=(1, 2))
        demuxed.clear()
        index = build_index(films, films / "x.index", update=True, num_workers=0)
        assert demuxed == ["c.mp4"]
        assert index[2].mtime_ns == 2

    def test_labels_and_columns_are_taken_anew(self, films: Path, demuxed: list[str]) -> None:
        build_index(films, films / "x.index", label_from="folder", num_workers=0)
        (films / "list.csv").write_text("path,label,note\ndogs/c.mp4,9,new\ncats/b.mp4,8,\n")
        demuxed.clear()
        index = build_index(films / "list.csv", films / "x.index", update=True, num_workers=0)
        assert demuxed == []
        assert [(video.label, video.extra) for video in index] == [(9, {"note": "new"}), (8, {"note": None})]
        assert index.classes == []

    def test_a_file_that_went_bad_is_dropped(self, films: Path) -> None:
        build_index(films, films / "x.index", num_workers=0)
        spoil(films / "dogs/c.mp4")
        report = build_with_report(films, films / "x.index", update=True, num_workers=0)
        assert list(report.skipped) == [str(films / "dogs/c.mp4")]
        assert len(report.index) == 2

    def test_films_that_moved_with_their_index_are_known(self, films: Path, demuxed: list[str]) -> None:
        build_index(films, films / "x.index", num_workers=0)
        films.rename(films.parent / "moved")
        demuxed.clear()
        index = build_index(films.parent / "moved", films.parent / "moved/x.index", update=True, num_workers=0)
        assert demuxed == []
        assert index[0].path == str(films.parent / "moved/cats/a.mp4")

    def test_without_an_index_all_is_read(self, films: Path) -> None:
        report = build_with_report(films, films / "x.index", update=True, num_workers=0)
        assert (report.read, report.reused) == (3, 0)

    def test_a_damaged_index_is_refused_but_can_be_built_anew(self, films: Path) -> None:
        build_index(films, films / "x.index", num_workers=0)
        content = (films / "x.index").read_bytes()
        (films / "x.index").write_bytes(content[:-100])
        with pytest.raises(IndexFormatError, match="cut short or damaged"):
            build_index(films, films / "x.index", update=True)
        build_index(films, films / "x.index", num_workers=0)
        assert (films / "x.index").read_bytes() == content


def test_the_folder_of_the_index_is_made(films: Path) -> None:
    assert len(build_index(films, films / "a/b/x.index", num_workers=0)) == 3


def test_a_relative_out_is_beside_the_working_folder(films: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(films)
    assert build_index(["cats", "dogs"], "x.index", num_workers=0).path == str(films / "x.index")


def test_a_file_of_another_kind_is_never_overwritten(films: Path) -> None:
    before = (films / "dogs/c.mp4").read_bytes()
    with pytest.raises(ArgumentError, match=r"c\.mp4' is a file of another kind"):
        build_index(films, films / "dogs/c.mp4")
    assert (films / "dogs/c.mp4").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_workers": -1}, "num_workers=-1: give a number of processes"),
        ({"num_workers": "two"}, "num_workers='two'"),
        ({"label_from": "file"}, "label_from='file'"),
    ],
)
def test_a_wrong_argument_is_named(films: Path, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        build_index(films, films / "x.index", **arguments)  # type: ignore[arg-type]


def test_an_out_that_can_not_be_is_refused_before_anything_is_read(films: Path, demuxed: list[str]) -> None:
    for out in (films, films / "cats/a.mp4/x.index"):
        with pytest.raises(ArgumentError, match="out="):
            build_index(films, out)
    assert demuxed == []


@pytest.mark.parametrize("name", ["with space.mp4", "50%.mp4", "a#b?.mp4", 'it\'s "it".mp4', "[x].mp4", "日本:é.mp4"])
def test_films_of_any_name_are_read(films: Path, name: str) -> None:
    (films / "dogs/c.mp4").rename(films / name)
    index = build_index(films / name, films / "x.index", num_workers=1)
    assert index[0].path == str(films / name)


def test_a_name_that_is_not_text_is_read_or_reported(films: Path) -> None:
    path = os.fsdecode(os.fsencode(films) + b"/caf\xe9.mp4")
    os.rename(films / "dogs/c.mp4", path)
    report = build_with_report(films, films / "x.index", num_workers=1)
    assert path in [video.path for video in report.index] or path in report.skipped


def test_building_in_a_script_needs_no_main_guard_and_no_torch(films: Path) -> None:
    script = films / "script.py"
    script.write_text(
        "import sys\nfrom vidload import build_index\n"
        "print(len(build_index(sys.argv[1], sys.argv[2])), 'torch' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, script, films, films / "x.index"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        check=False,
    )
    assert (done.stdout, done.stderr) == ("3 False\n", "")


def test_progress_is_silent_for_a_short_build_that_no_terminal_shows(
    films: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    build_index(films, films / "x.index", progress=True, num_workers=0)
    assert capfd.readouterr() == ("", "")


def test_the_index_file_opens_as_a_table_elsewhere(films: Path) -> None:
    build_index(films, films / "x.index", num_workers=0)
    with pa.ipc.open_file(str(films / "x.index")) as reader:
        assert reader.read_all()["codec"].to_pylist() == ["hevc", "h264", "h264"]
    assert VideoIndex(films / "x.index")[0].codec == "hevc"
