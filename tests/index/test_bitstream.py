"""Roles of packets are read from the bits that the specifications name."""

from __future__ import annotations

import pytest

from tests.films import FILMS, Film, FilmFolder
from vidload.index.bitstream import PacketRole, gives_no_frame, packet_role
from vidload.index.demux import demux_video

REFERENCE = PacketRole(0, True)
NO_REFERENCE = PacketRole(0, False)
IDR = PacketRole(0, True, True)


def h264(kind: int, nal_ref_idc: int) -> bytes:
    return bytes([nal_ref_idc << 5 | kind]) + b"\x88payload"


def hevc(kind: int, layer: int = 0) -> bytes:
    return bytes([kind << 1, layer + 1]) + b"payload"


def prefixed(*units: bytes, length_size: int = 4) -> bytes:
    return b"".join(len(unit).to_bytes(length_size, "big") + unit for unit in units)


def with_start_codes(*units: bytes) -> bytes:
    return b"".join((b"\x00" if number == 0 else b"") + b"\x00\x00\x01" + unit for number, unit in enumerate(units))


def avcc(length_size: int) -> bytes:
    return bytes([1, 100, 0, 31, 0xFC | length_size - 1, 0xE1, 0])


def hvcc(length_size: int) -> bytes:
    return bytes([1, *[0] * 20, 0xFC | length_size - 1, 0])


SPS, PPS, SEI, DELIMITER = h264(7, 3), h264(8, 3), h264(6, 0), h264(9, 0)


@pytest.mark.parametrize(
    ("units", "role"),
    [
        ([h264(5, 3)], IDR),
        ([SPS, PPS, SEI, h264(5, 1)], IDR),
        ([h264(1, 2)], REFERENCE),
        ([h264(1, 0)], NO_REFERENCE),
        ([DELIMITER, SEI, h264(1, 0)], NO_REFERENCE),
        ([h264(1, 0), h264(1, 0)], NO_REFERENCE),
        ([h264(1, 0), h264(1, 1)], REFERENCE),  # the second field is referred to
        ([h264(2, 0), h264(3, 0), h264(4, 0)], NO_REFERENCE),  # data partitions
        ([SEI], REFERENCE),  # no slice: nothing is claimed
    ],
)
@pytest.mark.parametrize("length_size", [0, 1, 2, 4])
def test_h264(units: list[bytes], role: PacketRole, length_size: int) -> None:
    if length_size:
        read = packet_role("h264", avcc(length_size))
        data = prefixed(*units, length_size=length_size)
    else:
        read = packet_role("h264", b"\x00\x00\x00\x01\x67parameters")
        data = with_start_codes(*units)
    assert read is not None
    assert read(data) == role


@pytest.mark.parametrize("extradata", [None, b""])
def test_a_stream_without_configuration_has_start_codes(extradata: bytes | None) -> None:
    read = packet_role("h264", extradata)
    assert read is not None
    assert read(with_start_codes(DELIMITER, h264(1, 0))) == NO_REFERENCE


@pytest.mark.parametrize(
    ("units", "role"),
    [
        ([hevc(19)], IDR),
        ([hevc(20)], IDR),
        ([hevc(21)], REFERENCE),  # CRA: frames before it may be referred to
        ([hevc(32), hevc(33), hevc(34), hevc(39), hevc(19)], IDR),  # parameter sets, SEI
        ([hevc(0)], NO_REFERENCE),  # TRAIL_N
        ([hevc(1)], REFERENCE),  # TRAIL_R
        ([hevc(6)], NO_REFERENCE),  # RADL_N
        ([hevc(8)], NO_REFERENCE),  # RASL_N
        ([hevc(9)], REFERENCE),  # RASL_R
        ([hevc(0, layer=2)], PacketRole(2, False)),  # may be referred to from layer 3
        ([hevc(1, layer=1)], PacketRole(1, True)),
        ([hevc(0), hevc(0)], NO_REFERENCE),
        ([hevc(35)], REFERENCE),
    ],
)
@pytest.mark.parametrize("length_size", [0, 2, 4])
def test_hevc(units: list[bytes], role: PacketRole, length_size: int) -> None:
    if length_size:
        read = packet_role("hevc", hvcc(length_size))
        data = prefixed(*units, length_size=length_size)
    else:
        read = packet_role("hevc", b"\x00\x00\x00\x01\x40parameters")
        data = with_start_codes(*units)
    assert read is not None
    assert read(data) == role


@pytest.mark.parametrize(("kind", "role"), [(0, REFERENCE), (1, REFERENCE), (2, NO_REFERENCE), (3, REFERENCE)])
def test_mpeg4_part_2(kind: int, role: PacketRole) -> None:
    read = packet_role("mpeg4", None)
    assert read is not None
    vop = b"\x00\x00\x01\xb6" + bytes([kind << 6 | 0x15]) + b"payload"
    assert read(vop) == role
    assert read(b"\x00\x00\x01\xb3\x00\x10\x07" + vop) == role  # a group of VOPs before it
    assert read(vop + b"\x00\x00\x01\xb6\x15payload") == REFERENCE  # and an I VOP in the same packet


@pytest.mark.parametrize("codec", ["mpeg1video", "mpeg2video"])
@pytest.mark.parametrize(("kind", "role"), [(1, REFERENCE), (2, REFERENCE), (3, NO_REFERENCE)])
def test_mpeg2(codec: str, kind: int, role: PacketRole) -> None:
    read = packet_role(codec, None)
    assert read is not None
    # temporal_reference (ten bits), then picture_coding_type (three)
    picture = b"\x00\x00\x01\x00" + (777 << 6 | kind << 3).to_bytes(2, "big") + b"payload"
    assert read(picture) == role
    assert read(b"\x00\x00\x01\xb3header\x00\x00\x01\xb8gop!" + picture) == role


@pytest.mark.parametrize("codec", ["vp8", "vp9", "av1", "mjpeg", "ffv1", "prores"])
def test_of_other_codecs_nothing_is_claimed(codec: str) -> None:
    assert packet_role(codec, None) is None


@pytest.mark.parametrize("codec", ["h264", "hevc", "mpeg4", "mpeg2video"])
@pytest.mark.parametrize(
    "data",
    [b"", b"\x00", b"\x00\x00\x01", b"\x00\x00\x00\xff", bytes(50), b"\xff" * 50],
    ids=["none", "zero", "start code", "length", "zeros", "ones"],
)
@pytest.mark.parametrize("extradata", [None, avcc(4), hvcc(4)], ids=["none", "avcC", "hvcC"])
def test_bytes_without_sense_are_taken_for_a_reference(codec: str, data: bytes, extradata: bytes | None) -> None:
    read = packet_role(codec, extradata)
    assert read is not None
    assert read(data).reference


def test_only_vp8_and_vp9_packets_say_that_nothing_is_shown() -> None:
    assert gives_no_frame("vp8", b"\x00rest")
    assert not gives_no_frame("vp8", b"\x10rest")
    # frame_marker 2, profile 0, no show_existing_frame, non-key, show_frame
    assert gives_no_frame("vp9", bytes([0b1000_0100]) + b"rest")
    assert not gives_no_frame("vp9", bytes([0b1000_0110]) + b"rest")
    assert not gives_no_frame("vp9", bytes([0b1000_1000]))  # show_existing_frame
    assert not gives_no_frame("vp9", bytes([0b0000_0100]) + b"rest")  # no frame_marker: damaged
    # profile 3 has one bit more before them
    assert gives_no_frame("vp9", bytes([0b1011_0010]) + b"rest")
    assert not gives_no_frame("vp9", bytes([0b1011_0011]) + b"rest")
    for codec in ("h264", "hevc", "av1", "mpeg4"):
        assert not gives_no_frame(codec, b"\x00rest")


def test_a_vp9_superframe_shows_its_last_frame() -> None:
    hidden, shown = bytes([0b1000_0100]) + bytes(9), bytes([0b1000_0110]) + bytes(4)
    marker = bytes([0b110_00_001])  # two frames, sizes of one byte
    index = marker + bytes([len(hidden), len(shown)]) + marker
    assert not gives_no_frame("vp9", hidden + shown + index)
    assert gives_no_frame("vp9", hidden + shown + index[1:])  # no index: the last byte alone doesn't make one


@pytest.mark.parametrize("film", FILMS, ids=str)
def test_no_packet_of_an_ordinary_film_is_hidden(film: Film, film_file: FilmFolder) -> None:
    data = film_file(film).read_bytes()
    video = demux_video(film_file(film))
    if video.offsets_exact:
        packets = zip(video.packet_pos.tolist(), video.packet_size.tolist(), strict=True)
        assert not any(gives_no_frame(video.codec, data[begin : begin + size]) for begin, size in packets)
