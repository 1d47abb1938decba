"""A clip's slice as little files, for backends that decode in the loader's process while workers only read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from vidload.decode.container import mux_slice, split_runs
from vidload.decode.orient import as_coded
from vidload.decode.protocol import Slice
from vidload.errors import DecodeError
from vidload.transforms.geometry import Placement

if TYPE_CHECKING:
    import torch

__all__ = ["DecodedClips", "DeviceDecoder", "EncodedClip", "EncodedPart", "encode_slice"]


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """Runs of a slice that decode one after another, muxed in memory.

    Attributes:
        data: uint8[bytes], the file. It starts with a keyframe and gives a frame for each packet.
        container: Name of its muxer: mp4, avi, matroska or nut.
        frames: int64[n], for each row in `rows`, the number in this file of the frame that belongs there.
        rows: int64[n], rows of the clip.
    """

    data: npt.NDArray[np.uint8]
    container: str
    frames: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EncodedClip:
    """A clip that is read, but not decoded.

    Attributes:
        path: The video, for messages.
        codec: Name of its codec, as libavcodec has it: h264, hevc, av1, vp8, vp9, mjpeg, …
        width: Of the coded picture, in pixels.
        height: Likewise.
        pix_fmt: libavutil's name of the pixel format.
        numbers: int64[T], frame numbers in the video, for messages.
        placement: What of the coded picture (before rotation), how large; `flip` is done last.
        mirrored: Whether the picture is mirrored left to right for showing, before `rotation`.
        rotation: Degrees to turn it clockwise for showing: 0, 90, 180 or 270.
        parts: The files.
        color_space: The stream's matrix, an AVColorSpace; 2 where none is stated.
    """

    path: str
    codec: str
    width: int
    height: int
    pix_fmt: str
    numbers: npt.NDArray[np.int64]
    placement: Placement
    mirrored: bool
    rotation: int
    parts: tuple[EncodedPart, ...]
    color_space: int = 2

    def undecoded(self, backend: str, rows: Sequence[int], reason: str) -> DecodeError:
        """The error for rows that didn't come out right; names video, frames and backend."""
        frames = sorted({int(self.numbers[row]) for row in rows})
        shown = ", ".join(map(str, frames[:8])) + (", …" if len(frames) > 8 else "")
        return DecodeError(f"{self.path}: frame{'s' if len(frames) > 1 else ''} {shown}: {reason} (decoder {backend})")


@dataclass(frozen=True, slots=True)
class DecodedClips:
    """What came of clips.

    Attributes:
        video: uint8[n, T, H, W, 3] on the device, RGB: the clips that came out right, in the order given.
        errors: For those that didn't, by their place in the order given.
    """

    video: torch.Tensor
    errors: dict[int, DecodeError]


class DeviceDecoder(Protocol):
    """A backend that decodes clips of a batch together, in the loader's process. Used by one thread at a time."""

    name: str

    def decode(self, clips: Sequence[EncodedClip], size: tuple[int, int]) -> DecodedClips:
        """Decode, place, turn and flip.

        Args:
            clips: At least one; all have as many frames.
            size: (H, W) of the output, as shown: that of all placements.
        """
        ...

    def close(self) -> None:
        """Let go of all that is kept open."""
        ...


def encode_slice(piece: Slice, placement: Placement) -> EncodedClip:
    """Mux a slice into as few files as decode on their own.

    Args:
        piece: The slice.
        placement: In the picture as shown.

    Raises:
        DecodeError: If no container takes the stream.
    """
    video = piece.video
    parts = []
    for part, rows in split_runs(piece):
        file = mux_slice(part)
        parts.append(
            EncodedPart(np.frombuffer(file.data, np.uint8), file.container, file.frames, rows.astype(np.int64))
        )
    return EncodedClip(
        path=video.path,
        codec=video.codec,
        width=video.width,
        height=video.height,
        pix_fmt=video.pix_fmt,
        numbers=piece.frames,
        placement=as_coded(video, placement),
        mirrored=bool(video.mirrored),
        rotation=int(video.rotation),
        parts=tuple(parts),
        color_space=int(video.color_space),
    )
