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
from vidload.index.video import HIDDEN, IntArray, Video
from vidload.transforms.geometry import Placement
from vidload.transforms.planar import PlaneColour, Wire, check_wire, clip_shape

__all__ = [
    "MAX_PIXELS",
    "Backends",
    "DecodeTimes",
    "DecodeWork",
    "DecoderName",
    "check_decoder",
    "check_pixels",
    "check_planes",
    "work_of",
]

DecoderName = Literal["auto", "decord", "pyav", "torchcodec"]

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
    """

    bytes: int
    packets: int
    wanted: int
    leading: int
    dropped: int
    convert: float = 0.0
    reused: int = 0
    opened: int = 0


@dataclass(frozen=True, slots=True)
class DecodeTimes:
    """When a clip was read and decoded, in seconds of `time.monotonic`; what was done; what planes' numbers mean."""

    started: float
    read: float
    decoded: float
    colour: PlaneColour | None = None
    work: DecodeWork | None = None


def work_of(piece: Slice, *, convert: float = 0.0, reused: int = 0, opened: int = 0) -> DecodeWork:
    """What a slice makes a decoder do."""
    plan = piece.plan
    size = sum(len(payload) for run in piece.data for payload in run)
    return DecodeWork(
        size, plan.num_packets, plan.num_wanted, plan.num_leading, plan.num_dropped, convert, reused, opened
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
    "pyav": PyAVDecoder,
    "decord": DecordDecoder,
    "torchcodec": TorchcodecDecoder,
}

# Codecs that decord was checked on; see docs/decoders.md.
_DECORD_CODECS = frozenset({"av1", "h264", "hevc", "mjpeg", "mpeg4", "vp8", "vp9"})


def decord_reason(video: Video) -> str | None:
    """Why decord isn't to be used for a film, or None if it may be."""
    if video.codec not in _DECORD_CODECS:
        return f"it isn't checked on codec {video.codec}"
    if np.any(video.packet_flags & HIDDEN):
        return "it has packets that no frame comes out of, and decord counts packets"
    if not gives_width(video.width):
        return f"it fails on pictures {video.width} pixels wide"
    return None


_REASONS: dict[str, Callable[[Video], str | None]] = {"decord": decord_reason, "torchcodec": torchcodec_reason}
"""Of those that don't take every film: why they don't."""


def check_planes(decoder: str) -> None:
    """Refuse a decoder that can't give planar YUV.

    Raises:
        ArgumentError: If it can't.
    """
    if decoder not in ("auto", "pyav"):
        raise ArgumentError(f"wire='yuv420' with decoder={decoder!r}: it gives RGB only; use decoder='pyav' or 'auto'")


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

    Raises:
        ArgumentError: If there is no such decoder.
    """

    def __init__(self, decoder: str = "auto", *, max_pixels: int = MAX_PIXELS) -> None:
        check_decoder(decoder)
        self._max_pixels = max_pixels
        self._decoder = decoder
        self._made: dict[str, Decoder] = {}

    def choose(self, video: Video, wire: Wire = "rgb") -> Decoder:
        """The backend for a film.

        Raises:
            ArgumentError: If the backend asked for by name can't give planes, and `wire` wants them.
            DecodeError: If a backend is asked for by name that is wrong on this kind of film.
        """
        name = self._decoder
        if wire == "yuv420":
            check_planes(name)
            name = "pyav"
        if name == "auto":
            name = "pyav"
        elif name in _REASONS:
            reason = _REASONS[name](video)
            if reason is not None:
                raise DecodeError(f"{video.path}: {name} can't be used: {reason}; use decoder='pyav' or 'auto'")
        if name not in self._made:
            self._made[name] = _MAKERS[name]()
        return self._made[name]

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
            out: uint8[T, H, W, 3] with T the number of frames and H, W those of the placement's window; for planes
                uint8[T, H * 3 // 2, W], in one piece.
            drop_disposable: Whether packets that no wanted frame needs are left out.
            wire: ``"rgb"``, or ``"yuv420"`` for planes, which PyAV gives.

        Returns:
            When it was read and decoded, and for planes what their numbers mean.

        Raises:
            ArgumentError: If a frame is outside the film, the memory has another shape than the planes, or decord
                is asked for them.
            StaleIndexError: If the file isn't the one that was indexed.
            DecodeError: If a frame can't be decoded, or comes out damaged.
        """
        check_pixels(video, self._max_pixels)
        check_wire(wire)
        decoder = self.choose(video, wire)
        shape = clip_shape(wire, len(frames), placement.window[3], placement.window[2])
        if out.shape != shape or (wire == "yuv420" and not out.flags.c_contiguous):
            raise ArgumentError(f"out of shape {out.shape}: give uint8{list(shape)}, in one piece for wire='yuv420'")
        colour = None
        before = (decoder.convert_seconds, decoder.reused, decoder.opened)
        started = time.monotonic()
        for earlier in _EARLIER_KEYFRAMES:
            piece = read_slice(video, frames, drop_disposable=drop_disposable, earlier_keyframes=earlier)
            read = time.monotonic()
            try:
                if wire == "yuv420":
                    assert isinstance(decoder, PyAVDecoder)
                    colour = decoder.decode_planes(piece, placement, out)
                else:
                    decoder.decode(piece, placement, out)
            except DecodeError:
                if earlier == _EARLIER_KEYFRAMES[-1]:
                    raise
            else:
                break
        decoded = time.monotonic()
        after = (decoder.convert_seconds, decoder.reused, decoder.opened)
        convert, reused, opened = (now - then for now, then in zip(after, before, strict=True))
        work = work_of(piece, convert=convert, reused=int(reused), opened=int(opened))
        return DecodeTimes(started, read, decoded, colour, work)

    def close(self) -> None:
        """Close all backends that were made."""
        for decoder in self._made.values():
            decoder.close()
        self._made.clear()
