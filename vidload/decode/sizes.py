"""Sizes of pictures by their packets' headers: VP8, VP9 and MJPEG. Decodes nothing."""

from __future__ import annotations

from vidload.decode.repeats import vp9_frames

__all__ = ["picture_sizes"]

_NO_FRAME_HEADER = frozenset({0xC4, 0xC8, 0xCC})  # of JPEG's markers 0xC0 to 0xCF, those that aren't SOF


def picture_sizes(codec: str, packet: bytes) -> list[tuple[int, int]]:
    """(width, height) of the pictures whose headers in a packet state one; others are as large as those they refer to.

    The layouts are those of RFC 6386 (section 9.1), of the VP9 bitstream specification (version 0.6, section 6.2) and
    of ITU-T T.81 (annex B).

    Args:
        codec: As libavcodec names it; an empty list for all but vp8, vp9 and mjpeg.
        packet: Its bytes. Damaged ones may give any size, or none.
    """
    if codec == "vp8":
        sizes = [_vp8_size(packet)]
    elif codec == "vp9":
        sizes = [_vp9_size(frame) for frame in vp9_frames(packet)]
    elif codec == "mjpeg":
        sizes = [_jpeg_size(packet)]
    else:
        sizes = []
    return [size for size in sizes if size is not None]


def _vp8_size(packet: bytes) -> tuple[int, int] | None:
    if len(packet) < 10 or packet[0] & 1:
        return None
    return tuple(int.from_bytes(packet[at : at + 2], "little") & 0x3FFF for at in (6, 8))  # type: ignore[return-value]


class _Bits:
    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data, "big")
        self._left = len(data) * 8

    def take(self, count: int) -> int:
        """The next bits as a number; zeros past the end."""
        self._left -= count
        return (self._value >> self._left if self._left >= 0 else 0) & ((1 << count) - 1)


def _vp9_size(frame: bytes) -> tuple[int, int] | None:
    bits = _Bits(frame[:32])
    bits.take(2)
    profile = bits.take(1) | bits.take(1) << 1
    if profile == 3:
        bits.take(1)
    if bits.take(1):  # show_existing_frame
        return None
    inter, shown, resilient = bits.take(1), bits.take(1), bits.take(1)
    intra_only = inter and not shown and bits.take(1)
    if inter and not resilient:
        bits.take(2)  # reset_frame_context
    if not inter or intra_only:
        bits.take(24)  # frame_sync_code
        if not inter or profile > 0:
            _skip_vp9_colours(bits, profile)
    if inter:
        bits.take(8)  # refresh_frame_flags
        if not intra_only:
            bits.take(3 * 4)  # three references, and the sign of each
            if any(bits.take(1) for _ in range(3)):  # found_ref: as large as that reference
                return None
    return bits.take(16) + 1, bits.take(16) + 1


def _skip_vp9_colours(bits: _Bits, profile: int) -> None:
    if profile >= 2:
        bits.take(1)  # ten_or_twelve_bit
    is_rgb = bits.take(3) == 7
    if not is_rgb:
        bits.take(1)  # color_range
    if profile in (1, 3):
        bits.take(1 if is_rgb else 3)  # subsampling, and a reserved bit


def _jpeg_size(packet: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(packet) and packet[at] == 0xFF:
        marker = packet[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in _NO_FRAME_HEADER:
            return int.from_bytes(packet[at + 7 : at + 9], "big"), int.from_bytes(packet[at + 5 : at + 7], "big")
        else:
            at += 2 + int.from_bytes(packet[at + 2 : at + 4], "big")
    return None
