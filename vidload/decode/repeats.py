"""Packets that don't decode to one picture each, by their headers.

VP9 and AV1 have packets that only show an earlier picture again (``show_existing_frame``), and ones that hold pictures
to refer to, never shown by themselves, before the one that is shown.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["count_pictures", "shows_again", "vp9_frames"]

_AV1_FRAME_HEADER = 3  # obu_type OBU_FRAME_HEADER; OBU_FRAME can't be one that shows again
_AV1_FRAME = 6  # obu_type OBU_FRAME


def shows_again(codec: str, packet: bytes) -> bool:
    """Whether a packet has a header that shows a picture decoded before.

    The layouts are those of the VP9 bitstream specification (version 0.6, sections 6.2 and annex B) and of the AV1
    bitstream specification (sections 5.3.2 and 5.9.2).

    Args:
        codec: As libavcodec names it; False for all but vp9 and av1.
        packet: Its bytes.
    """
    if codec == "vp9":
        return any(frame and _vp9_shows_again(frame[0]) for frame in vp9_frames(packet))
    if codec == "av1":
        return any(kind == _AV1_FRAME_HEADER and first & 0x80 for kind, first in _av1_units(packet))
    return False


def count_pictures(codec: str, packet: bytes) -> int:
    """How many pictures are decoded from a packet, shown or not; 1 for all codecs but vp9 and av1.

    Args:
        codec: As libavcodec names it.
        packet: Its bytes.
    """
    if codec == "vp9":
        return sum(1 for frame in vp9_frames(packet) if frame and not _vp9_shows_again(frame[0]))
    if codec == "av1":
        headers = ((kind, first) for kind, first in _av1_units(packet) if kind in (_AV1_FRAME_HEADER, _AV1_FRAME))
        return sum(1 for kind, first in headers if kind == _AV1_FRAME or not first & 0x80)
    return 1


def _vp9_shows_again(first: int) -> bool:
    """By a frame's first byte: marker (2 bits), profile (2; 3 has a further bit), then the flag."""
    return bool(first & (0x04 if first & 0x30 == 0x30 else 0x08))


def vp9_frames(packet: bytes) -> Iterator[bytes]:
    """The frames of a VP9 superframe, or the packet itself where it is none."""
    marker = packet[-1] if packet else 0
    count, width = (marker & 7) + 1, (marker >> 3 & 3) + 1
    length = 2 + count * width
    if marker & 0xE0 != 0xC0 or len(packet) < length or packet[-length] != marker:
        yield packet
        return
    start, sizes = 0, packet[1 - length : -1]
    for number in range(count):
        size = int.from_bytes(sizes[number * width : (number + 1) * width], "little")
        yield packet[start : start + size]
        start += size


def _av1_units(packet: bytes) -> Iterator[tuple[int, int]]:
    """(obu_type, first byte of the payload) of each open bitstream unit."""
    at = 0
    while at < len(packet):
        header = packet[at]
        at += 2 if header & 0x04 else 1
        size = len(packet) - at
        if header & 0x02:  # obu_has_size_field: leb128
            size, shift = 0, 0
            while at < len(packet) and shift < 56:
                byte = packet[at]
                at += 1
                size |= (byte & 0x7F) << shift
                shift += 7
                if not byte & 0x80:
                    break
        if size and at < len(packet):
            yield header >> 3 & 15, packet[at]
        at += size
