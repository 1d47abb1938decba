"""Random edits of small films, as a hypothesis strategy: bytes, stretches, ends, and sizes in containers' headers."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeAlias

from hypothesis import strategies as st

from tests.reading_cases import CASES, FOLDER

__all__ = ["Edit", "apply", "edits", "films"]

LARGEST = 40_000

# Boxes of mp4 (ISO/IEC 14496-12), whose size is the four bytes before; ids of Matroska (RFC 9559), with theirs behind;
# and chunks of AVI.
_MARKS = re.compile(
    b"moov|mvhd|trak|tkhd|edts|elst|mdia|mdhd|hdlr|minf|stbl|stsd|avc1|avcC|hvcC|stts|ctts|stss|stsc|stsz|stco|co64|mvex|"
    b"moof|traf|trun|tfhd|mdat|ftyp|"
    b"\x1a\x45\xdf\xa3|\x18\x53\x80\x67|\x16\x54\xae\x6b|\x1f\x43\xb6\x75|\x15\x49\xa9\x66|\xa3|\xae|"
    b"RIFF|LIST|strh|strf|idx1|movi|00dc"
)
_NUMBERS = (0, 1, 2, 7, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)

Edit: TypeAlias = tuple[str, float, int, int]
"""(kind, place as a share of the file, a length, a number): what the last two mean depends on the kind."""


def films() -> list[Path]:
    """The films that are edited: those of tests/cases/ that can be read, and are small."""
    paths = [FOLDER / case["file"] for case in CASES if case["expect"]["outcome"] != "raise"]
    return [path for path in paths if path.stat().st_size <= LARGEST]


@cache
def _marks(data: bytes) -> list[int]:
    return [match.start() for match in _MARKS.finditer(data)]


def _flip(data: bytearray, at: int, length: int, number: int) -> None:
    data[at] ^= number % 255 + 1


def _fill(data: bytearray, at: int, length: int, number: int) -> None:
    end = min(at + length, len(data))
    data[at:end] = bytes([number % 256]) * (end - at)


def _noise(data: bytearray, at: int, length: int, number: int) -> None:
    end = min(at + length, len(data))
    data[at:end] = bytes((number * (3 + offset * offset) >> 3) % 256 for offset in range(end - at))


def _cut(data: bytearray, at: int, length: int, number: int) -> None:
    del data[at:]


def _drop(data: bytearray, at: int, length: int, number: int) -> None:
    del data[at : at + length]


def _repeat(data: bytearray, at: int, length: int, number: int) -> None:
    data[at:at] = data[at : at + length]


def _value(data: bytearray, at: int, length: int, number: int) -> None:
    data[at : at + 4] = _NUMBERS[number % len(_NUMBERS)].to_bytes(4, "big")


_BY_PLACE: dict[str, Callable[[bytearray, int, int, int], None]] = {
    "flip": _flip,
    "fill": _fill,
    "noise": _noise,
    "cut": _cut,
    "drop": _drop,
    "repeat": _repeat,
    "value": _value,
}


def apply(film: bytes, changes: list[Edit]) -> bytes:
    """The film with all changes, one after another."""
    data, marks = bytearray(film), _marks(film)
    for kind, place, length, number in changes:
        if not data:
            break
        if kind == "header" and marks:  # a size, or a value a few words behind it
            at = marks[int(place * (len(marks) - 1))] + 4 * (length % 8 - 1)
            if 0 <= at < len(data):
                _value(data, at, length, number)
        elif kind in _BY_PLACE:
            _BY_PLACE[kind](data, int(place * (len(data) - 1)), length, number)
    return bytes(data)


_EDIT = st.tuples(
    st.sampled_from([*_BY_PLACE, "flip", "flip", "flip", "header", "header"]),
    st.floats(0, 1),
    st.integers(1, 400),
    st.integers(0, 2**16),
)

edits = st.tuples(st.sampled_from([path.name for path in films()]), st.lists(_EDIT, min_size=1, max_size=4))
"""(name of a film, edits)."""
