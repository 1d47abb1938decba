from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from tests.index.videos import make_video
from vidload.errors import ArgumentError, IndexFormatError
from vidload.index import format as format_module
from vidload.index.format import IndexFile, facts_of, looks_like_index, write_index
from vidload.index.video import Video


def write(out: Path, videos: list[Video], **other: object) -> IndexFile:
    write_index(
        str(out),
        facts_of(videos),
        paths=[video.path for video in videos],
        **{"labels": [-1] * len(videos), **other},  # type: ignore[arg-type]
    )
    return IndexFile(str(out))


def test_the_file_is_plain_arrow_with_one_batch(tmp_path: Path) -> None:
    write(tmp_path / "x.index", [make_video(0), make_video(1)], labels=[3, 5])
    with pa.ipc.open_file(str(tmp_path / "x.index")) as reader:
        assert reader.num_record_batches == 1
        table = reader.read_all()
    assert table["label"].to_pylist() == [3, 5]
    assert table["width"].to_pylist() == [640, 641]


def test_paths_below_the_index_are_stored_relative_to_it(tmp_path: Path) -> None:
    here, there = str(tmp_path / "here/films/a.mp4"), str(tmp_path / "here-too/b.mp4")
    (tmp_path / "here").mkdir()
    file = write(tmp_path / "here/x.index", [make_video(path=here), make_video(path=there)])
    assert file.batch["path"].to_pylist() == [b"films/a.mp4", os.fsencode(there)]
    assert [file.video_path(row) for row in range(2)] == [here, there]


def test_index_and_films_can_be_moved_together(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    before = write(tmp_path / "old/x.index", [make_video(path=str(tmp_path / "old/a.mp4"))])
    (tmp_path / "old").rename(tmp_path / "new")
    after = IndexFile(str(tmp_path / "new/x.index"))
    assert after.video_path(0) == str(tmp_path / "new/a.mp4")
    assert after.fingerprint == before.fingerprint


def test_the_fingerprint_is_of_paths_sizes_frames_labels_and_classes(tmp_path: Path) -> None:
    video = make_video(0)
    marks = [
        write(tmp_path / "x.index", [video]).fingerprint,
        write(tmp_path / "x.index", [make_video(0, path="/films/b.mp4")]).fingerprint,
        write(tmp_path / "x.index", [make_video(0, file_size=1)]).fingerprint,
        write(tmp_path / "x.index", [make_video(0, frame_packets=video.frame_packets[1:])]).fingerprint,
        write(tmp_path / "x.index", [video], labels=[1]).fingerprint,
        write(tmp_path / "x.index", [video], classes=["a"]).fingerprint,
        write(tmp_path / "x.index", [video, video]).fingerprint,
    ]
    assert len(set(marks)) == len(marks)
    touched = write(tmp_path / "y.index", [make_video(0, mtime_ns=5)], extra=pa.table({"x": [1]}))
    assert touched.fingerprint == marks[0]


def test_an_index_of_no_videos_can_be_read(tmp_path: Path) -> None:
    assert write(tmp_path / "x.index", []).batch.num_rows == 0


def test_a_missing_index_is_named(tmp_path: Path) -> None:
    with pytest.raises(IndexFormatError, match=r"x\.index: there is no such index; build it"):
        IndexFile(str(tmp_path / "x.index"))


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\0" * 1000])
def test_a_file_of_another_kind_is_no_index(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.index").write_bytes(content)
    assert not looks_like_index(str(tmp_path / "x.index"))
    with pytest.raises(IndexFormatError, match=r"x\.index: the file is no index of videos"):
        IndexFile(str(tmp_path / "x.index"))


def test_a_folder_is_no_index(tmp_path: Path) -> None:
    with pytest.raises(IndexFormatError, match="is no index of videos"):
        IndexFile(str(tmp_path))


def test_another_arrow_file_is_no_index(tmp_path: Path) -> None:
    table = pa.table({"path": ["x"]})
    with pa.ipc.new_file(str(tmp_path / "x.arrow"), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(IndexFormatError, match=r"x\.arrow: this Arrow file is no index"):
        IndexFile(str(tmp_path / "x.arrow"))


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_noticed(tmp_path: Path, share: float) -> None:
    out = tmp_path / "x.index"
    write(out, [make_video(number, 100) for number in range(20)])
    content = out.read_bytes()
    out.write_bytes(content[: max(int(len(content) * share), 8)])
    with pytest.raises(IndexFormatError, match=r"x\.index: the file is cut short or damaged .* `vidload index`"):
        IndexFile(str(out))


def test_another_version_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(format_module, "VERSION", 99)
    write(tmp_path / "x.index", [make_video(0)])
    monkeypatch.undo()
    with pytest.raises(IndexFormatError, match="has format version 99, this vidload reads version 2; build it anew"):
        IndexFile(str(tmp_path / "x.index"))


def test_a_failed_write_leaves_the_old_index_and_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "x.index"
    write(out, [make_video(0)])
    before = out.read_bytes()

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ArgumentError, match=r"x\.index: the index can't be written .*No space left"):
        write(out, [make_video(1)])
    assert out.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.index"]
