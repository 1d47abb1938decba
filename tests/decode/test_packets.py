"""Packets end in the zeros that decoders read past their end (AV_INPUT_BUFFER_PADDING_SIZE)."""

from __future__ import annotations

import ctypes

import pytest

from vidload.decode.protocol import make_packet

PADDING = 64


def memory_behind(packet: object, size: int) -> bytes:
    return ctypes.string_at(packet.buffer_ptr + size, PADDING)  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [1, 2, 63, 64, 65, 1000, 100_000])
def test_zeros_follow_the_bytes_whatever_lay_behind_them(size: int) -> None:
    """A packet that points at the bytes in place is followed by what lies there: MPEG-4 pictures came out broken."""
    among_ones = memoryview(b"\xff" * (size + 2 * PADDING))[:size]
    packet = make_packet(among_ones)  # type: ignore[arg-type]
    assert bytes(packet) == b"\xff" * size
    assert packet.size == size
    assert memory_behind(packet, size) == bytes(PADDING)


def test_zeros_follow_in_memory_that_was_used_before() -> None:
    for _ in range(50):
        used = [make_packet(b"\xff" * 5000) for _ in range(20)]
        del used
        packet = make_packet(b"\xff" * 4000)
        assert memory_behind(packet, 4000) == bytes(PADDING)


def test_a_packet_keeps_its_bytes_when_they_are_changed_elsewhere() -> None:
    data = bytearray(b"abc")
    packet = make_packet(data)  # type: ignore[arg-type]
    data[:] = b"xyz"
    assert bytes(packet) == b"abc"
