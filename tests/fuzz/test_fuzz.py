"""Edited films are frames or vidload's own errors, within bounds of time and memory; ``make fuzz`` reads more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.films import FilmFolder
from tests.fuzz.edits import Edit, apply, edits, films
from tests.fuzz.reading import Reader
from vidload import build_index
from vidload.index.bitstream import gives_no_frame, packet_role

FOUND = sorted((Path(__file__).parent / "found").glob("*.*"))
"""Inputs that something went wrong with, once."""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    with Reader(tmp_path_factory.mktemp("fuzz")) as made:
        yield made


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(edits)
def test_edited_films_are_frames_or_errors(reader: Reader, edited: tuple[str, list[Edit]]) -> None:
    reader.read(*edited)


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_what_was_found_is_cured(path: Path, reader: Reader) -> None:
    reader.check(path.read_bytes(), path.suffix)


def test_all_kinds_of_outcome_come_about(reader: Reader) -> None:
    assert {"frames", "UnreadableVideoError", "DecodeError"} <= reader.outcomes.keys() or not reader.outcomes


def test_a_crash_and_a_foreign_error_fail_the_test(reader: Reader, tmp_path: Path) -> None:
    """So that the tests above can fail."""
    from vidload.index import processes

    code = "from tests.fuzz import worker; worker.read = lambda path: {what}; worker.main()"
    for what, message in (("1 / 0", "ZeroDivisionError"), ("__import__('os').abort()", "SIGABRT")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(processes, "_START", f"exec({code.format(what=what)!r})")
            with Reader(tmp_path) as broken, pytest.raises(AssertionError, match=message):
                broken.read(films()[0].name, [("flip", 0.5, 1, 1)])


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    changes=st.lists(
        st.tuples(
            st.sampled_from(["flip", "fill", "cut", "value"]),
            st.floats(0, 1),
            st.integers(1, 400),
            st.integers(0, 2**16),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_edited_indexes_open_or_are_refused(reader: Reader, index_bytes: bytes, changes: list[Edit]) -> None:
    reader.check(apply(index_bytes, changes), ".index")


@pytest.fixture(scope="module")
def index_bytes(film_file: FilmFolder, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("index") / "x.index"
    build_index([film_file("hevc"), film_file("vp9")], path, checksums=True, num_workers=0).close()
    return path.read_bytes()


CODECS = ["h264", "hevc", "vp8", "vp9", "mpeg4", "mpeg2video", "mjpeg"]


@given(st.sampled_from(CODECS), st.binary(max_size=60), st.binary(min_size=1, max_size=80))
def test_no_bytes_confuse_the_reading_of_packets(codec: str, extradata: bytes, data: bytes) -> None:
    """Written in Python, so that a wrong byte is at worst a wrong answer, never a read beyond an end."""
    role = packet_role(codec, extradata)
    if role is not None:
        role(data)
    gives_no_frame(codec, data)
