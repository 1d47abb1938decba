"""What packets say of themselves: whether another frame refers to them, and whether a frame comes out at all.

Dropping such a packet changes no pixel of any other frame. Only what a specification states is used:

- H.264 (ITU-T H.264, 7.4.1): a picture whose slices all have ``nal_ref_idc`` 0 is no reference.
- HEVC (ITU-T H.265, table 7-1): a sub-layer non-reference picture (even ``nal_unit_type`` below 16) may still be
  referred to from a higher temporal sub-layer; only those of the highest sub-layer in the film are disposable.
- MPEG-4 part 2 (ISO/IEC 14496-2, 6.3.5) and MPEG-2 (ITU-T H.262, 6.3.9): B pictures are no reference.

For every other codec nothing is claimed beyond what the container says of a packet.

Packets without a frame of their own are known for VP8 (RFC 6386, 9.1) and VP9 (VP9 bitstream specification, 6.2 and
annex B), by ``show_frame``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["TELL_KEYFRAMES", "PacketRole", "gives_no_frame", "packet_role", "refers_to_none"]

TELL_KEYFRAMES = frozenset({"h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4", "vp8", "vp9"})
"""Codecs whose packets say whether decoding can start with them: H.264's by `vidload.index.h264`."""


class PacketRole(NamedTuple):
    """What a packet says of itself.

    Attributes:
        layer: Temporal sub-layer, 0 for codecs without.
        reference: Whether a frame of the same sub-layer may refer to it.
        resets: Whether it makes a decoder forget all frames before it (an IDR picture).
    """

    layer: int
    reference: bool
    resets: bool = False


_AVCC_LENGTH_SIZE, _HVCC_LENGTH_SIZE = 4, 21  # the bytes of configuration records that state it

_REFERENCE = PacketRole(0, True)
_NO_REFERENCE = PacketRole(0, False)
_RESET = PacketRole(0, True, True)


def packet_role(codec: str, extradata: bytes | None) -> Callable[[bytes], PacketRole] | None:
    """A function that reads a packet's role from its bytes, or None where the codec's packets don't say.

    A packet is disposable if it is no reference and its layer is the highest of all packets in the film.

    Args:
        codec: Name of the codec, as libavcodec names it.
        extradata: The codec's configuration record; decides how NAL units are delimited.
    """
    if codec == "h264":
        return _nal_role(_h264_unit, extradata, length_size_at=_AVCC_LENGTH_SIZE)
    if codec == "hevc":
        return _nal_role(_hevc_unit, extradata, length_size_at=_HVCC_LENGTH_SIZE)
    if codec == "mpeg4":  # vop_coding_type, the two bits after the VOP start code: 2 is B
        return lambda data: _picture_role(data, b"\x00\x00\x01\xb6", lambda at: data[at] >> 6 == 2)
    if codec in ("mpeg1video", "mpeg2video"):  # picture_coding_type, three bits after ten of temporal_reference: 3 is B
        return lambda data: _picture_role(data, b"\x00\x00\x01\x00", lambda at: data[at + 1] >> 3 & 7 == 3)
    return None


def refers_to_none(codec: str, extradata: bytes | None, data: bytes) -> bool | None:
    """Whether a packet's frame refers to none before it; None where its codec doesn't say. H.264 is asked elsewhere.

    Containers are wrong about it at times: without a list of keyframes every packet of an mp4 or AVI counts as one.

    Args:
        codec: Name of the codec, as libavcodec names it.
        extradata: The codec's configuration record.
        data: The packet, at least one byte.
    """
    if codec == "hevc":
        kinds = [data[at] >> 1 & 63 for at in _units(data, _length_size(extradata, _HVCC_LENGTH_SIZE))]
        pictures = [kind for kind in kinds if kind <= 31]
        return all(16 <= kind <= 23 for kind in pictures) if pictures else None
    if codec == "mpeg4":
        return _coding_type(data, b"\x00\x00\x01\xb6", lambda at: data[at] >> 6, 0)
    if codec in ("mpeg1video", "mpeg2video"):
        return _coding_type(data, b"\x00\x00\x01\x00", lambda at: data[at + 1] >> 3 & 7, 1)
    if codec == "vp8":
        return not data[0] & 1
    if codec == "vp9" and data[0] >> 6 == 2:
        show_existing, inter = (2, 1) if data[0] >> 4 & 3 == 3 else (3, 2)
        return not (data[0] >> show_existing & 1 or data[0] >> inter & 1)
    return None


def _coding_type(data: bytes, start_code: bytes, kind: Callable[[int], int], intra: int) -> bool | None:
    """Whether the first picture is intra; None where there is none."""
    at = data.find(start_code) + len(start_code)
    if at < len(start_code) or at + 1 >= len(data):
        return None
    return kind(at) == intra


def gives_no_frame(codec: str, data: bytes) -> bool:
    """Whether a packet says that it is only decoded, and shown by nothing; False where its codec doesn't say.

    Args:
        codec: Name of the codec, as libavcodec names it.
        data: The packet, at least one byte.
    """
    first, last = data[0], data[-1]
    if codec == "vp8":
        return not first >> 4 & 1
    if codec == "vp9":
        frames_in_index = (last & 7) + 1
        index_size = 2 + frames_in_index * ((last >> 3 & 3) + 1)
        if last >> 5 == 6 and data[-index_size:][:1] == data[-1:]:
            return False  # several frames in one packet, of which the last is shown
        if first >> 6 != 2:
            return False  # without frame_marker it is no VP9 frame, but a damaged one
        # frame_marker (two bits), profile (two, and one reserved for profile 3), show_existing_frame, frame_type
        show_existing, show = (2, 0) if first >> 4 & 3 == 3 else (3, 1)
        return not (first >> show_existing & 1 or first >> show & 1)
    return False


def _h264_unit(data: bytes, at: int) -> PacketRole | None:
    kind = data[at] & 31
    if kind == 5:
        return _RESET
    if not 1 <= kind <= 4:
        return None  # parameter sets, SEI and the like
    return _REFERENCE if data[at] >> 5 & 3 else _NO_REFERENCE


def _hevc_unit(data: bytes, at: int) -> PacketRole | None:
    kind = data[at] >> 1 & 63
    if kind > 31:
        return None
    return PacketRole(max((data[at + 1] & 7) - 1, 0), kind > 15 or kind & 1 == 1, kind in (19, 20))


def _nal_role(
    unit: Callable[[bytes, int], PacketRole | None], extradata: bytes | None, length_size_at: int
) -> Callable[[bytes], PacketRole]:
    length_size = _length_size(extradata, length_size_at)

    def role(data: bytes) -> PacketRole:
        layer, reference, resets, slices = 0, False, False, 0
        for at in _units(data, length_size):
            this = unit(data, at)
            if this is not None:
                slices += 1
                layer, reference = max(layer, this.layer), reference or this.reference
                resets = resets or this.resets
        return PacketRole(layer, reference or not slices, resets)

    return role


def _length_size(extradata: bytes | None, at: int) -> int:
    """Bytes of the length before each unit; 0 where units follow start codes."""
    # A configuration record (avcC, hvcC) starts with its version, 1; anything else is a byte stream with start codes.
    if extradata and extradata[0] == 1 and len(extradata) > at:
        return (extradata[at] & 3) + 1
    return 0


def _units(data: bytes, length_size: int) -> Iterator[int]:
    return _length_prefixed(data, length_size) if length_size else _after_start_codes(data)


def _length_prefixed(data: bytes, length_size: int) -> Iterator[int]:
    at = 0
    while at + length_size + 1 < len(data):
        length = int.from_bytes(data[at : at + length_size], "big")
        if length:
            yield at + length_size
        at += length_size + length


def _after_start_codes(data: bytes) -> Iterator[int]:
    at = data.find(b"\x00\x00\x01")
    while 0 <= at < len(data) - 4:
        yield at + 3
        at = data.find(b"\x00\x00\x01", at + 3)


def _picture_role(data: bytes, start_code: bytes, is_b: Callable[[int], bool]) -> PacketRole:
    at, found = data.find(start_code), False
    while 0 <= at < len(data) - len(start_code) - 1:
        found = True
        if not is_b(at + len(start_code)):
            return _REFERENCE
        at = data.find(start_code, at + len(start_code))
    return _NO_REFERENCE if found else _REFERENCE
