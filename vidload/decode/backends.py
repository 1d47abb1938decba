"""Choosing a backend for a film, and decoding a clip with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from vidload.decode.decord import DecordDecoder, gives_width
from vidload.decode.protocol import Decoder, Frames, Slice
from vidload.decode.pyav import PyAVDecoder
from vidload.decode.source import read_slice
from vidload.decode.torchcodec import TorchcodecDecoder, torchcodec_reason
from vidload.errors import ArgumentError, DecodeError
from vidload.index.video import REFRESH, IntArray, Video
from vidload.transforms.geometry import Placement
from vidload.transforms.planar import PlaneColour, Wire, check_wire, clip_shape

__all__ = [
    "MAX_PIXELS",
    "Backends",
    "Concealed",
    "DecodeTimes",
    "DecodeWork",
    "DecoderName",
    "check_concealed",
    "check_decoder",
    "check_pixels",
    "needs_pyav",
    "work_of",
]

DecoderName = Literal["auto", "decord", "pyav", "torchcodec"]

Concealed = Literal["error", "allow"]
"""Whether frames that a decoder painted over are an error, or given as they come."""

MAX_PIXELS = 8192 * 8192
"""Largest picture that is decoded by default, in pixels."""

_EARLIER_KEYFRAMES = (0, 1, 4)


@dataclass(frozen=True, slots=True)
class DecodeWork:
    """What was done for a clip.

    Attributes:
        bytes: Read from the file.
        packets: Read, and decoded.
        wanted: Distinct frames that were wanted.
        leading: Packets decoded before the first wanted frame of their run.
        dropped: Packets left out, between others that were read.
        convert: Seconds of decoding that placing the wanted frames took.
        reused: Runs decoded with something open already.
        opened: Runs for which it had to be opened.
        concealed: Whether it is damaged, and was decoded as far as it could be.
    """

    bytes: int
    packets: int
    wanted: int
    leading: int
    dropped: int
    convert: float = 0.0
    reused: int = 0
    opened: int = 0
    concealed: bool = False


@dataclass(frozen=True, slots=True)
class DecodeTimes:
    """When a clip was read and decoded, in seconds of `time.monotonic`; what was done; what planes' numbers mean."""

    started: float
    read: float
    decoded: float
    colour: PlaneColour | None = None
    work: DecodeWork | None = None


def work_of(
    piece: Slice, *, convert: float = 0.0, reused: int = 0, opened: int = 0, concealed: bool = False
) -> DecodeWork:
    """What a slice makes a decoder do."""
    plan = piece.plan
    size = sum(len(payload) for run in piece.data for payload in run)
    return DecodeWork(
        size, plan.num_packets, plan.num_wanted, plan.num_leading, plan.num_dropped, convert, reused, opened, concealed
    )


def check_decoder(decoder: str) -> None:
    """Refuse a decoder that doesn't exist.

    Raises:
        ArgumentError: If it doesn't, or isn't installed.
    """
    if decoder not in get_args(DecoderName):
        raise ArgumentError(f"decoder={decoder!r}: there are {', '.join(map(repr, get_args(DecoderName)))}")
    if decoder == "torchcodec":
        TorchcodecDecoder()


_MAKERS: dict[str, Callable[[], Decoder]] = {
    "decord": DecordDecoder,
    "torchcodec": TorchcodecDecoder,
}

# Codecs that decord was checked on; see docs/decoders.md.
_DECORD_CODECS = frozenset({"av1", "h264", "hevc", "mjpeg", "mpeg4", "vp8", "vp9"})


def decord_reason(video: Video) -> str | None:
    """Why decord isn't to be used for a film, or None if it may be."""
    if video.codec not in _DECORD_CODECS:
        return f"it isn't checked on codec {video.codec}"
    if video.has_hidden:
        return "it has packets that no frame comes out of, and decord counts packets"
    if np.any(video.packet_flags & REFRESH):
        return "its frames become whole little by little after a keyframe, and decord gives them before"
    if not gives_width(video.width):
        return f"it fails on pictures {video.width} pixels wide"
    return None


_WANTED: dict[Wire, str] = {"rgb48": "dtype='uint16'", "yuv420": "wire='yuv420'"}

_REASONS: dict[str, Callable[[Video], str | None]] = {"decord": decord_reason, "torchcodec": torchcodec_reason}
"""Of those that don't take every film: why they don't."""


def needs_pyav(decoder: str, what: str) -> None:
    """Refuse a decoder other than PyAV for something that only PyAV gives.

    Args:
        decoder: As the user named it.
        what: ``"deinterlace=True"``, say.

    Raises:
        ArgumentError: If it is another.
    """
    if decoder not in ("auto", "pyav"):
        raise ArgumentError(
            f"{what} with decoder={decoder!r}: it gives RGB only, of 8 bits, as coded; use decoder='pyav' or 'auto'"
        )


def check_concealed(concealed: object) -> None:
    """Refuse a way that doesn't exist.

    Raises:
        ArgumentError: If it doesn't.
    """
    if concealed not in get_args(Concealed):
        raise ArgumentError(f"concealed={concealed!r}: there are {', '.join(map(repr, get_args(Concealed)))}")


def check_pixels(video: Video, max_pixels: int) -> None:
    """Refuse a film whose picture is too large.

    Raises:
        DecodeError: If it is.
    """
    if video.width * video.height > max_pixels:
        raise DecodeError(
            f"{video.path}: its picture of {video.width}×{video.height} is larger than max_pixels={max_pixels} allows"
        )


class Backends:
    """The backends of one thread, each made when it is first needed.

    Args:
        decoder: Which to use; ``"auto"`` is PyAV, which takes every film, is the fastest and notices most damage.
        max_pixels: Largest picture that is decoded.
        deinterlace: Whether frames that are coded as two fields become pictures of their first one.
        concealed: Whether frames that are damaged are an error, or ``"allow"`` gives them as they come.

    Raises:
        ArgumentError: If there is no such decoder, or it can't do that.
    """

    def __init__(
        self,
        decoder: str = "auto",
        *,
        max_pixels: int = MAX_PIXELS,
        deinterlace: bool = False,
        concealed: Concealed = "error",
    ) -> None:
        check_decoder(decoder)
        check_concealed(concealed)
        if deinterlace:
            needs_pyav(decoder, "deinterlace=True")
        self._max_pixels = max_pixels
        self._deinterlace = deinterlace
        self._concealed = concealed
        self._decoder = decoder
        self._made: dict[str, Decoder] = {}

    def choose(self, video: Video, wire: Wire = "rgb") -> Decoder:
        """The backend for a film.

        Raises:
            ArgumentError: If the backend asked for by name can't give planes, and `wire` wants them.
            DecodeError: If a backend is asked for by name that is wrong on this kind of film.
        """
        name = self._decoder
        if wire != "rgb":
            needs_pyav(name, _WANTED[wire])
        if name == "auto":
            name = "pyav"
        elif name in _REASONS:
            reason = _REASONS[name](video)
            if reason is not None:
                raise DecodeError(f"{video.path}: {name} can't be used: {reason}; use decoder='pyav' or 'auto'")
        if name not in self._made:
            self._made[name] = self._pyav() if name == "pyav" else _MAKERS[name]()
        return self._made[name]

    def _pyav(self) -> Decoder:
        # A film's header is checked against max_pixels before; its packets may state another size.
        return PyAVDecoder(max_pixels=self._max_pixels, deinterlace=self._deinterlace)

    def decode(
        self,
        video: Video,
        frames: Sequence[int] | IntArray,
        placement: Placement,
        out: Frames,
        *,
        drop_disposable: bool = True,
        wire: Wire = "rgb",
    ) -> DecodeTimes:
        """Read and decode frames into memory that is given.

        A frame that doesn't come out from the keyframe it should is tried from earlier ones before it is an error.

        Args:
            video: The film.
            frames: Frame numbers, in any order, repeats allowed.
            placement: What of the picture, how large, mirrored or not.
            out: uint8[T, H, W, 3] with T the number of frames and H, W those of the placement's window; for another
                wire of that one's shape, in one piece.
            drop_disposable: Whether packets that no wanted frame needs are left out.
            wire: ``"rgb"``, or what only PyAV gives: ``"rgb48"``, or ``"yuv420"`` for planes.

        Returns:
            When it was read and decoded, and for planes what their numbers mean.

        Raises:
            ArgumentError: If a frame is outside the film, the memory has another shape, or another backend than PyAV
                is asked for planes or 16 bits.
            StaleIndexError: If the file isn't the one that was indexed.
            DecodeError: If a frame can't be decoded, or comes out damaged.
        """
        check_pixels(video, self._max_pixels)
        check_wire(wire)
        decoder = self.choose(video, wire)
        shape = clip_shape(wire, len(frames), placement.window[3], placement.window[2])
        if out.shape != shape or (wire != "rgb" and not out.flags.c_contiguous):
            raise ArgumentError(f"out of shape {out.shape}: give uint8{list(shape)}, in one piece for wire={wire!r}")
        colour = None
        before = (decoder.convert_seconds, decoder.reused, decoder.opened)
        started = time.monotonic()
        attempts = [(earlier, False) for earlier in _EARLIER_KEYFRAMES]
        if self._concealed == "allow":
            attempts.append((0, True))
        for earlier, lenient in attempts:
            try:
                piece = read_slice(
                    video, frames, drop_disposable=drop_disposable, earlier_keyframes=earlier, check=not lenient
                )
                read = time.monotonic()
                if wire == "yuv420":
                    assert isinstance(decoder, PyAVDecoder)
                    colour = decoder.decode_planes(piece, placement, out, lenient=lenient)
                else:
                    # Bytes of uint16 are as good as those of uint8 to whatever carries them.
                    memory = out.view(np.uint16) if wire == "rgb48" else out
                    decoder.decode(piece, placement, memory, lenient=lenient)  # type: ignore[arg-type]
            except DecodeError:
                if (earlier, lenient) == attempts[-1]:
                    raise
            else:
                break
        decoded = time.monotonic()
        after = (decoder.convert_seconds, decoder.reused, decoder.opened)
        convert, reused, opened = (now - then for now, then in zip(after, before, strict=True))
        work = work_of(piece, convert=convert, reused=int(reused), opened=int(opened), concealed=lenient)
        return DecodeTimes(started, read, decoded, colour, work)

    def close(self) -> None:
        """Close all backends that were made."""
        for decoder in self._made.values():
            decoder.close()
        self._made.clear()
