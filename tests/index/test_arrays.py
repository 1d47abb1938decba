from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from tests.films import FilmFolder
from vidload.index.arrays import array_of_bytes, array_of_lists, array_of_numbers, numpy_view


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint8(), pa.float64()], ids=str)
@pytest.mark.parametrize("numbers", [[], [1], [0, 255, 7], np.arange(9)[::2]], ids=len)
def test_numbers_come_back_as_a_view(kind: pa.DataType, numbers: list[int]) -> None:
    array = array_of_numbers(numbers, kind)
    array.validate(full=True)
    assert array.equals(pa.array(list(numbers), pa.int64()).cast(kind))
    assert numpy_view(array).tolist() == list(numbers)
    assert numpy_view(array.slice(1)).tolist() == list(numbers[1:])
    assert numpy_view(array).dtype == np.dtype(str(kind).replace("double", "float64"))


def test_truth_values_are_numbers() -> None:
    assert array_of_numbers([True, False], pa.uint8()).to_pylist() == [1, 0]


def test_bytes_and_texts_are_arrays() -> None:
    values = [b"", "日本".encode(), b"x"]
    for kind in (pa.large_binary(), pa.large_string()):
        array = array_of_bytes(values, kind)
        array.validate(full=True)
        assert array.cast(pa.large_binary()).to_pylist() == values
        assert len(array_of_bytes([], kind)) == 0


def test_lists_are_as_long_as_said() -> None:
    kind = pa.large_list(pa.int32())
    array = array_of_lists([[0, 0], [], [0]], array_of_numbers([5, 6, 7], pa.int32()), kind)
    array.validate(full=True)
    assert array.equals(pa.array([[5, 6], [], [7]], kind))


def test_demuxing_does_not_import_pandas(film_file: FilmFolder) -> None:
    code = """
import sys

class Recorder:  # pyarrow looks for pandas in silence: what isn't installed here would not be missed
    wanted = set()

    def find_spec(self, name, path=None, target=None):
        self.wanted.add(name)

sys.meta_path.insert(0, Recorder())
from vidload.index.worker import Request, read_facts
print(read_facts(Request(sys.argv[1]))[0], sorted(Recorder.wanted & {"torch", "decord", "pandas"}))
"""
    done = subprocess.run([sys.executable, "-c", code, film_file("mpeg4")], capture_output=True, text=True, check=True)
    assert done.stdout == "b'v' []\n"
