"""H.264's own count of reference pictures, by which one that is missing from a film is noticed.

From ITU-T H.264: a sequence parameter set (7.3.2.1.1) says how wide ``frame_num`` is and whether gaps are allowed; a
slice header (7.3.3) states it; between keyframes it grows by one with each reference picture (7.4.3). libavcodec
fills a gap with copies of the picture before, and says so only to its debug log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["Picture", "picture_reader"]

# Profiles whose parameter sets state chroma format, bit depth and scaling lists.
_HIGH_PROFILES = frozenset({44, 83, 86, 100, 110, 118, 122, 128, 134, 135, 138, 139, 244})
_SLICE, _IDR, _SEI, _SPS, _PPS = 1, 5, 6, 7, 8
_RECOVERY_POINT = 6  # of payload types
_HEADER_BYTES = 24  # of a slice: more than its first four numbers take


@dataclass(frozen=True, slots=True)
class Picture:
    """What a packet's first slice says.

    Attributes:
        number: Its ``frame_num``.
        modulus: Where that begins again at 0.
        reference: Whether pictures may refer to it.
        resets: Whether the count begins again with it (an IDR picture).
        gaps_allowed: Whether numbers may be left out.
        intra: Whether its first slice refers to no picture.
        recovery: Pictures after which all is right if decoding starts here, by a recovery point's message (D.1.8); None
            where there is none.
    """

    number: int
    modulus: int
    reference: bool
    resets: bool
    gaps_allowed: bool
    intra: bool = True
    recovery: int | None = None

    def follows(self, before: Picture) -> bool:
        """Whether nothing is missing between the reference picture `before` and this one."""
        # The second field of a frame has the number of the first.
        return self.resets or self.gaps_allowed or (self.number - before.number) % self.modulus in (0, 1)


@dataclass(frozen=True, slots=True)
class _Sequence:
    bits: int
    gaps_allowed: bool
    separate_planes: bool


class _Bits:
    """Reads bits of a NAL unit's payload; beyond its end they are zeros."""

    def __init__(self, data: bytes) -> None:
        data = data.replace(b"\0\0\x03", b"\0\0")  # emulation prevention, 7.4.1
        self._value = int.from_bytes(data, "big")
        self._left = len(data) * 8

    def take(self, count: int) -> int:
        self._left -= count
        if self._left < 0:
            raise ValueError("beyond the end")
        return self._value >> self._left & (1 << count) - 1

    def golomb(self) -> int:
        """An unsigned exponential Golomb number (9.1)."""
        zeros = 0
        while not self.take(1):
            zeros += 1
            if zeros > 32:
                raise ValueError("no number")
        return (1 << zeros) - 1 + self.take(zeros)


def picture_reader(extradata: bytes | None) -> Callable[[bytes], Picture | None]:
    """A function that reads what a packet says of its picture; None where it can't be told.

    It is to be given all packets in decode order, since parameter sets may come in them.

    Args:
        extradata: The configuration record (avcC), or parameter sets with start codes, or nothing.
    """
    sequences: dict[int, _Sequence] = {}
    sequence_of: dict[int, int] = {}  # of each picture parameter set
    length_size = 0
    if extradata and extradata[0] == 1 and len(extradata) > 6:
        length_size = (extradata[4] & 3) + 1
        for unit in _record_units(extradata):
            _take_parameters(unit, sequences, sequence_of)
    elif extradata:
        for unit in _byte_stream_units(extradata):
            _take_parameters(unit, sequences, sequence_of)

    def read(data: bytes) -> Picture | None:
        recovery: int | None = None
        for unit in _prefixed_units(data, length_size) if length_size else _byte_stream_units(data):
            kind = unit[0] & 31
            if kind in (_SPS, _PPS):
                _take_parameters(unit, sequences, sequence_of)
            elif kind == _SEI:
                found = _recovery_point(unit)
                recovery = recovery if found is None else found
            elif kind in (_SLICE, _IDR):
                return _picture(unit, sequences, sequence_of, recovery)
        return None

    return read


def _recovery_point(unit: bytes) -> int | None:
    """``recovery_frame_cnt`` of a unit of supplemental information (7.3.2.3), if it has one."""
    at = 1
    while at + 1 < len(unit):
        kind = size = 0
        while unit[at : at + 1] == b"\xff":
            kind, at = kind + 255, at + 1
        kind, at = kind + int.from_bytes(unit[at : at + 1], "big"), at + 1
        while unit[at : at + 1] == b"\xff":
            size, at = size + 255, at + 1
        size, at = size + int.from_bytes(unit[at : at + 1], "big"), at + 1
        if kind == _RECOVERY_POINT:
            try:
                return _Bits(unit[at : at + size]).golomb()
            except ValueError:
                return None
        at += size
    return None


def _picture(
    unit: bytes, sequences: dict[int, _Sequence], sequence_of: dict[int, int], recovery: int | None
) -> Picture | None:
    bits = _Bits(unit[1:_HEADER_BYTES])
    try:
        bits.golomb()  # first_mb_in_slice
        slice_type = bits.golomb()
        sequence = sequences.get(sequence_of.get(bits.golomb(), -1))
        if sequence is None:
            return None
        if sequence.separate_planes:
            bits.take(2)
        number = bits.take(sequence.bits)
    except ValueError:
        return None
    resets = unit[0] & 31 == _IDR
    return Picture(
        number=number,
        modulus=1 << sequence.bits,
        reference=bool(unit[0] >> 5 & 3),
        resets=resets,
        gaps_allowed=sequence.gaps_allowed,
        intra=slice_type % 5 in (2, 4),  # I and SI
        recovery=recovery,
    )


def _take_parameters(unit: bytes, sequences: dict[int, _Sequence], sequence_of: dict[int, int]) -> None:
    try:
        if unit[0] & 31 == _PPS:
            bits = _Bits(unit[1:_HEADER_BYTES])
            picture_set = bits.golomb()
            sequence_of[picture_set] = bits.golomb()
        elif unit[0] & 31 == _SPS:
            number, sequence = _sequence(unit)
            sequences[number] = sequence
    except (ValueError, IndexError):
        return  # a damaged one is none


def _sequence(unit: bytes) -> tuple[int, _Sequence]:
    profile, bits = unit[1], _Bits(unit[4:])
    number, separate = bits.golomb(), False
    if profile in _HIGH_PROFILES:
        chroma = bits.golomb()
        if chroma == 3:
            separate = bool(bits.take(1))
        bits.golomb()  # bit_depth_luma_minus8
        bits.golomb()  # bit_depth_chroma_minus8
        bits.take(1)  # qpprime_y_zero_transform_bypass_flag
        if bits.take(1):
            for list_number in range(12 if chroma == 3 else 8):
                if bits.take(1):
                    _skip_scaling_list(bits, 16 if list_number < 6 else 64)
    width = bits.golomb() + 4
    order = bits.golomb()
    if order == 0:
        bits.golomb()
    elif order == 1:
        bits.take(1)
        bits.golomb()
        bits.golomb()
        for _ in range(min(bits.golomb(), 255)):
            bits.golomb()
    bits.golomb()  # max_num_ref_frames
    return number, _Sequence(width, bool(bits.take(1)), separate)


def _skip_scaling_list(bits: _Bits, size: int) -> None:
    last = following = 8
    for _ in range(size):
        if following:
            code = bits.golomb()
            following = (last + (code + 1 >> 1) * (1 if code % 2 else -1)) % 256
        last = following or last


def _record_units(record: bytes) -> Iterator[bytes]:
    """The parameter sets of an avcC record (ISO/IEC 14496-15, 5.3.3.1)."""
    at = 5
    for mask in (31, 255):
        if at >= len(record):
            return
        count, at = record[at] & mask, at + 1
        for _ in range(count):
            length = int.from_bytes(record[at : at + 2], "big")
            if record[at + 2 : at + 2 + length]:
                yield record[at + 2 : at + 2 + length]
            at += 2 + length


def _prefixed_units(data: bytes, length_size: int) -> Iterator[bytes]:
    at = 0
    while at + length_size < len(data):
        length = int.from_bytes(data[at : at + length_size], "big")
        at += length_size
        if length:
            yield data[at : at + min(length, 4096)]
        at += length


def _byte_stream_units(data: bytes) -> Iterator[bytes]:
    at = data.find(b"\0\0\1")
    while 0 <= at < len(data) - 4:
        following = data.find(b"\0\0\1", at + 3)
        yield data[at + 3 : min(following if following >= 0 else len(data), at + 3 + 4096)]
        at = following
