from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.index.videos import assert_same, make_video
from vidload.errors import ArgumentError, IndexFormatError, StaleIndexError
from vidload.index.format import facts_of, write_index
from vidload.index.reader import VideoIndex
from vidload.index.video import Video

VIDEOS = [make_video(number, packets, label=number - 1) for number, packets in enumerate([6, 2, 300, 5])]


def write(out: Path, videos: list[Video], extra: pa.Table | None = None) -> Path:
    write_index(
        str(out),
        facts_of(videos),
        paths=[video.path for video in videos],
        labels=[video.label for video in videos],
        classes=["cat", "dog"],
        extra=extra,
    )
    return out


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "x.index", VIDEOS)


def test_every_fact_comes_back_as_it_was(file: Path) -> None:
    index = VideoIndex(file)
    assert len(index) == 4
    for row, video in enumerate(VIDEOS):
        assert_same(index[row], replace(video, id=row))
        assert_same(index[row - 4], index[row])
        assert_same(index[np.int64(row)], index[row])
    assert [video.id for video in index] == [0, 1, 2, 3]


@pytest.mark.parametrize("row", [4, -5, 10**12])
def test_a_row_beyond_the_end_is_an_index_error(file: Path, row: int) -> None:
    with pytest.raises(IndexError, match=rf"there is no video {row}; the index holds 4"):
        VideoIndex(file)[row]


def test_a_row_that_is_no_integer_is_a_type_error(file: Path) -> None:
    with pytest.raises(TypeError):
        VideoIndex(file)["0"]  # type: ignore[index]


def test_arrays_are_read_only_views(file: Path) -> None:
    index = VideoIndex(file)
    video = index[2]
    for name in ("pts", "dts", "pos", "size", "flags"):
        array = getattr(video, f"packet_{name}")
        assert not array.flags.writeable
        assert not array.flags.owndata
        assert np.shares_memory(array, getattr(index[2], f"packet_{name}"))
    assert not video.frame_packets.flags.writeable


def test_columns_are_arrays_over_all_videos(file: Path) -> None:
    index = VideoIndex(file)
    assert index.num_frames.tolist() == [video.num_frames for video in VIDEOS]
    assert index.duration.tolist() == [video.duration for video in VIDEOS]
    assert index.fps.tolist() == [video.fps for video in VIDEOS]
    assert index.labels.tolist() == [-1, 0, 1, 2]
    assert index.file_size.tolist() == [video.file_size for video in VIDEOS]
    assert index.num_frames.dtype == np.int64
    assert not index.num_frames.flags.writeable
    assert index.classes == ["cat", "dog"]
    assert index.columns == []
    assert index.path == str(file)


def test_further_columns_come_back_with_their_types_whatever_their_names(tmp_path: Path) -> None:
    extra = pa.table({"width": ["wide", None], "extra.x": [[1, 2], []], "": [0.5, 1.5]})
    index = VideoIndex(write(tmp_path / "x.index", VIDEOS[:2], extra))
    assert index.columns == ["width", "extra.x", ""]
    assert index[0].extra == {"width": "wide", "extra.x": [1, 2], "": 0.5}
    assert index[1].extra == {"width": None, "extra.x": [], "": 1.5}
    assert index[0].width == 640


def test_a_copy_by_pickle_opens_the_same_file(file: Path) -> None:
    index = VideoIndex(file)
    message = pickle.dumps(index)
    assert len(message) < 300
    assert_same(pickle.loads(message)[1], index[1])


def test_a_copy_by_pickle_notices_other_videos(file: Path) -> None:
    message = pickle.dumps(VideoIndex(file))
    write(file, VIDEOS[:3])
    with pytest.raises(StaleIndexError, match=r"x\.index: the index was rebuilt with other videos"):
        pickle.loads(message)


def test_a_copy_by_pickle_notices_that_the_index_is_gone(file: Path) -> None:
    message = pickle.dumps(VideoIndex(file))
    file.unlink()
    with pytest.raises(IndexFormatError, match="there is no such index"):
        pickle.loads(message)


def test_an_open_index_outlives_its_replacement(file: Path) -> None:
    index = VideoIndex(file)
    write(file, VIDEOS[2:])
    assert_same(index[1], VIDEOS[1], apart_from=("id",))
    assert_same(VideoIndex(file)[1], VIDEOS[3], apart_from=("id",))


def test_videos_outlive_a_closed_index(file: Path) -> None:
    with VideoIndex(file) as index:
        video, frames = index[2], index.num_frames
    del index
    gc.collect()
    assert_same(video, VIDEOS[2], apart_from=("id",))
    assert frames.tolist() == [video.num_frames for video in VIDEOS]


def test_a_closed_index_says_so(file: Path) -> None:
    index = VideoIndex(file)
    index.close()
    index.close()
    for use in (lambda: index[0], lambda: index.num_frames, lambda: index.classes, lambda: pickle.dumps(index)):
        with pytest.raises(ArgumentError, match="was closed"):
            use()


def test_no_file_stays_open(file: Path) -> None:
    import os

    before = os.listdir("/proc/self/fd")
    indexes = [VideoIndex(file) for _ in range(5)]
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert len(indexes[4]) == 4


def test_threads_read_the_same(file: Path) -> None:
    index = VideoIndex(file)
    with ThreadPoolExecutor(4) as threads:
        for row, video in enumerate(threads.map(lambda number: index[number % 4], range(400))):
            assert_same(video, VIDEOS[row % 4], apart_from=("id",))


def test_names_that_are_not_text_come_back(tmp_path: Path) -> None:
    path = "/films/caf\udce9.mp4"
    assert VideoIndex(write(tmp_path / "x.index", [make_video(path=path)]))[0].path == path


def test_reading_needs_neither_torch_nor_a_decoder_nor_pandas(file: Path) -> None:
    code = """
import sys

class Recorder:  # pyarrow looks for pandas in silence: what isn't installed here would not be missed
    wanted = set()

    def find_spec(self, name, path=None, target=None):
        self.wanted.add(name)

sys.meta_path.insert(0, Recorder())
from vidload.index.reader import VideoIndex
index = VideoIndex(sys.argv[1])
index[0], index.num_frames, index.classes
print(sorted(Recorder.wanted & {"torch", "av", "decord", "pandas"}))
"""
    done = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
