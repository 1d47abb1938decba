from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vidload.errors import ArgumentError, EmptySourceError
from vidload.index.sources import Source, resolve_sources


def make_files(folder: Path, *names: str) -> list[str]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return [str(folder / name) for name in names]


def test_a_folder_gives_its_videos_at_any_depth_in_the_order_of_names(tmp_path: Path) -> None:
    wanted = make_files(tmp_path, "a.mp4", "b/1.MKV", "b/2.webm", "b/c/d/3.avi", "e.ts")
    make_files(tmp_path, "notes.txt", ".hidden.mp4", ".cache/x.mp4", "b/list.csv", "mp4")
    assert list(resolve_sources(tmp_path).paths) == wanted


def test_a_relative_source_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = make_files(tmp_path, "films/a.mp4")
    monkeypatch.chdir(tmp_path)
    for source in ("films", "films/a.mp4", "films/*.mp4"):
        assert list(resolve_sources(source).paths) == wanted


def test_other_extensions_can_be_asked_for(tmp_path: Path) -> None:
    wanted = make_files(tmp_path, "a.film")
    make_files(tmp_path, "b.mp4")
    assert list(resolve_sources(tmp_path, extensions=[".film"]).paths) == wanted


def test_links_to_folders_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    make_files(tmp_path, "store/a.mp4", "films/b.mp4")
    (tmp_path / "films/more").symlink_to(tmp_path / "store")
    (tmp_path / "films/again").symlink_to(tmp_path / "films")
    found = [os.path.relpath(path, tmp_path) for path in resolve_sources(tmp_path / "films").paths]
    assert found == ["films/b.mp4", "films/more/a.mp4"]


def test_the_first_subfolder_is_the_label_where_asked(tmp_path: Path) -> None:
    make_files(tmp_path, "cats/x/1.mp4", "dogs/2.mp4", "loose.mp4")
    assert list(resolve_sources(tmp_path).labels) == [None, None, None]
    rows = resolve_sources(tmp_path, label_from="folder")
    assert list(rows.labels) == ["cats", "dogs", None]
    assert rows.class_numbers() == ([0, 1, -1], ["cats", "dogs"])


def test_a_file_given_by_itself_is_labelled_by_its_folder_where_asked(tmp_path: Path) -> None:
    make_files(tmp_path, "dogs/2.mp4", "cats/1.mp4")
    rows = resolve_sources(str(tmp_path / "*/*.mp4"), label_from="folder")
    assert list(rows.labels) == ["cats", "dogs"]


def test_labels_from_a_folder_without_subfolders_are_refused(tmp_path: Path) -> None:
    make_files(tmp_path, "1.mp4")
    with pytest.raises(ArgumentError, match="lie in the folder itself"):
        resolve_sources(tmp_path, label_from="folder")


def test_an_unknown_label_from_is_refused() -> None:
    with pytest.raises(ArgumentError, match='label_from=\'name\': give "none" or "folder"'):
        resolve_sources("x", label_from="name")  # type: ignore[arg-type]


def test_a_glob_gives_videos_and_what_is_in_folders_once(tmp_path: Path) -> None:
    wanted = make_files(tmp_path, "a/1.mp4", "a/b/2.mp4", "c.mp4")
    make_files(tmp_path, "notes.txt", "empty/notes.txt")
    for pattern in ("**", "*", "**/*", "**/*.mp4"):
        assert sorted(resolve_sources(str(tmp_path / pattern)).paths) == wanted


def test_a_glob_gives_files_of_any_ending_that_it_names(tmp_path: Path) -> None:
    wanted = make_files(tmp_path, "1.dat", "2.dat")
    assert list(resolve_sources(str(tmp_path / "*.dat")).paths) == wanted
    with pytest.raises(EmptySourceError, match="matches no video"):
        resolve_sources(str(tmp_path / "*"))


@pytest.mark.parametrize(
    "name",
    ["with space.mp4", "50%.mp4", "a#b.mp4", 'it\'s "it".mp4', "[x].mp4", "ünï 日本.mp4", "a:b.mp4", "*.mp4", "-o.mp4"],
)
def test_a_file_of_any_name_is_taken_as_it_is(tmp_path: Path, name: str) -> None:
    wanted = make_files(tmp_path, name, "x.mp4")
    assert list(resolve_sources(tmp_path / name).paths) == wanted[:1]
    assert wanted[0] in resolve_sources(tmp_path).paths


def test_a_name_that_is_not_text_survives(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.mp4")
    open(path, "w").close()
    assert list(resolve_sources(tmp_path).paths) == [path]


def test_several_sources_come_in_the_order_given_and_repeats_are_kept(tmp_path: Path) -> None:
    a, b = make_files(tmp_path, "a.mp4", "b.mp4")
    assert list(resolve_sources([b, tmp_path, a]).paths) == [b, a, b, a]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.mp4", r"missing\.mp4: there is no such file or folder"),
        ("missing/", "missing/: there is no such file"),
        ("none*.mp4", r"none\*\.mp4: this glob matches no video"),
        ("empty", "empty: there is no video in this folder"),
        ("", "one of them is empty"),
    ],
)
def test_a_source_that_leads_nowhere_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    make_files(tmp_path, "empty/readme.md")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EmptySourceError, match=message):
        resolve_sources(source)


def test_no_sources_at_all_are_refused() -> None:
    with pytest.raises(EmptySourceError, match="none given"):
        resolve_sources([])


def test_columns_of_several_lists_and_folders_are_joined(tmp_path: Path) -> None:
    (film,) = make_files(tmp_path, "films/f.mp4")
    (tmp_path / "a.csv").write_text("path,label,score\nx.mp4,3,7\n")
    pq.write_table(
        pa.table({"path": ["y.mp4"], "label": [4], "score": [0.5], "note": ["fine"]}), tmp_path / "b.parquet"
    )
    rows = resolve_sources([tmp_path / "a.csv", tmp_path / "films", tmp_path / "b.parquet"])
    assert list(rows) == [
        Source(str(tmp_path / "x.mp4"), 3, {"score": 7.0, "note": None}),
        Source(film, None, {"score": None, "note": None}),
        Source(str(tmp_path / "y.mp4"), 4, {"score": 0.5, "note": "fine"}),
    ]
    assert rows[-1] == rows[2]
    assert rows[:2] == [rows[0], rows[1]]


def test_lists_whose_columns_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("path,score\nx.mp4,high\n")
    (tmp_path / "b.csv").write_text("path,score\nx.mp4,1\n")
    with pytest.raises(ArgumentError, match="lists don't fit together"):
        resolve_sources([tmp_path / "a.csv", tmp_path / "b.csv"])


def test_numbers_are_labels_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("path,label\nx.mp4,7\ny.mp4,\nz.mp4,0\n")
    assert resolve_sources(tmp_path / "a.csv").class_numbers() == ([7, -1, 0], [])


def test_names_and_numbers_as_labels_do_not_mix(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("path,label\nx.mp4,7\n")
    (tmp_path / "b.csv").write_text("path,label\nx.mp4,cat\n")
    with pytest.raises(ArgumentError, match=r"some are numbers \(7\), others are names \('cat'\)"):
        resolve_sources([tmp_path / "a.csv", tmp_path / "b.csv"]).class_numbers()


def test_a_label_below_minus_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("path,label\nx.mp4,-2\n")
    with pytest.raises(ArgumentError, match="-2 is no class number"):
        resolve_sources(tmp_path / "a.csv").class_numbers()
