from __future__ import annotations

import datetime
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vidload.errors import ArgumentError, EmptySourceError
from vidload.index.sources import Sources, resolve_sources


def read(folder: Path, name: str, text: str) -> Sources:
    (folder / name).write_text(text, encoding="utf-8")
    return resolve_sources(folder / name)


def test_paths_in_a_list_are_relative_to_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lists").mkdir()
    monkeypatch.chdir(tmp_path)
    rows = read(Path("lists"), "a.csv", "path\nx.mp4\n../films/y.mp4\n/z.mp4\n")
    assert list(rows.paths) == [str(tmp_path / "lists/x.mp4"), str(tmp_path / "films/y.mp4"), "/z.mp4"]
    assert list(rows.labels) == [None, None, None]


def test_a_csv_column_has_the_one_type_that_fits_all_its_values(tmp_path: Path) -> None:
    rows = read(
        tmp_path,
        "a.csv",
        'path,whole,half,text,code,mixed,gaps\n"a, b.mp4",1,1.5,x,007,1,\n"c ""d"".mp4",-2,2,"two\nlines",12,one,3\n',
    )
    assert [Path(path).name for path in rows.paths] == ["a, b.mp4", 'c "d".mp4']
    assert rows.extra.to_pydict() == {
        "whole": [1, -2],
        "half": [1.5, 2.0],
        "text": ["x", "two\nlines"],
        "code": ["007", "12"],
        "mixed": ["1", "one"],
        "gaps": [None, 3],
    }


def test_a_csv_may_start_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert list(read(tmp_path, "a.csv", "\ufeffpath\n/é.mp4\n").paths) == ["/é.mp4"]


def test_names_of_classes_that_look_like_other_things_stay_names(tmp_path: Path) -> None:
    rows = read(tmp_path, "a.csv", "path,label\n1.mp4,true\n2.mp4,NA\n3.mp4,2020-01-01\n4.mp4,1\n5.mp4,\n")
    assert list(rows.labels) == ["true", "NA", "2020-01-01", "1", None]


def test_json_lines_keep_their_types_and_may_lack_keys(tmp_path: Path) -> None:
    lines = [{"path": "a.mp4", "box": [1, 2], "at": "2020-01-01"}, {"path": "b.mp4", "label": 3, "who": {"age": 3}}]
    for name in ("a.jsonl", "a.ndjson"):
        rows = read(tmp_path, name, "\n\n".join(map(json.dumps, lines)))
        assert list(rows.labels) == [None, 3]
        assert rows[0].extra == {"box": [1, 2], "at": "2020-01-01", "who": None}
        assert rows[1].extra == {"box": None, "at": None, "who": {"age": 3}}


def test_parquet_keeps_its_types(tmp_path: Path) -> None:
    folder = tmp_path / "label=3"  # must not be taken for a column
    folder.mkdir()
    moment = datetime.datetime(2020, 1, 2, 3, 4, 5, 678901)
    table = pa.table(
        {
            "path": pa.array(["a.mp4"]).dictionary_encode(),
            "score": pa.array([0.5], pa.float32()),
            "kind": pa.array(["x"]).dictionary_encode(),
            "when": pa.array([int(moment.replace(tzinfo=datetime.timezone.utc).timestamp() * 1e6) * 1000 + 1]).cast(
                pa.timestamp("ns")
            ),
        }
    )
    pq.write_table(table, folder / "a.parquet")
    rows = resolve_sources(folder / "a.parquet")
    assert list(rows) == [rows[0]]
    assert rows[0].path == str(folder / "a.mp4")
    assert rows[0].label is None
    assert rows[0].extra == {"score": 0.5, "kind": "x", "when": moment}
    assert rows.extra.schema.field("score").type == pa.float32()


def test_whole_numbers_that_became_floats_are_labels(tmp_path: Path) -> None:
    pq.write_table(pa.table({"path": ["a", "b", "c"], "label": [2.0, None, float("nan")]}), tmp_path / "a.parquet")
    assert list(resolve_sources(tmp_path / "a.parquet").labels) == [2, None, None]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "file,label\nx.mp4,1\n", r"a\.csv: there is no column 'path'; the columns are 'file', 'label'"),
        ("a.csv", "path,label\nx.mp4,1,2\n", r"a\.csv: can't be read as a list .*Expected 2 columns, got 3"),
        ("a.csv", "path,x,x\na,1,2\n", "column 'x' comes more than once"),
        ("a.csv", "path,label\na,1\n,2\n", "row 2 has no path"),
        ("a.csv", "path,label\na,1.5\n", "row 1 has label 1.5"),
        ("a.jsonl", '{"path": "a"}\n{path}\n', r"a\.jsonl: .*line 2"),
        ("a.jsonl", '{"path": "a"}\n[1]\n', "line 2 is no JSON object"),
        ("a.jsonl", '{"path": "a", "x": 1}\n{"path": "b", "x": "y"}\n', "column 'x' has values of several types"),
        ("a.jsonl", '{"path": 3}\n', r"row 1 has no path \(3\)"),
        ("a.jsonl", '{"path": "a", "label": [1]}\n', r"row 1 has label \[1\]"),
        ("a.parquet", "nonsense", r"a\.parquet: can't be read as a list"),
    ],
)
def test_a_bad_list_is_named_with_what_is_wrong(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        read(tmp_path, name, text)


def test_a_csv_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("path\né.mp4\n".encode("latin-1"))
    with pytest.raises(ArgumentError, match=r"a\.csv: can't be read as a list .*UTF-8"):
        resolve_sources(tmp_path / "a.csv")


@pytest.mark.parametrize(("name", "text"), [("a.csv", ""), ("a.csv", "path,label\n"), ("a.jsonl", "\n")])
def test_an_empty_list_is_refused(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(EmptySourceError, match=f"{name}: this list of videos has no rows"):
        read(tmp_path, name, text)
