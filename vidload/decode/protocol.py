"""What every backend does: take a slice, give the wanted frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import av
import numpy as np
import numpy.typing as npt
from av.stream import Stream

from vidload.decode.slice import SlicePlan
from vidload.errors import DecodeError
from vidload.index.video import Video
from vidload.transforms.geometry import Placement

__all__ = ["AnyFrames", "Decoder", "Frames", "Slice", "make_packet", "undecoded"]

Frames = npt.NDArray[np.uint8]
"""uint8[T, H, W, 3], RGB."""

AnyFrames = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]
"""uint8[T, H, W, 3] or uint16[T, H, W, 3], RGB."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A plan with the bytes of its packets.

    Attributes:
        video: The video it is cut from.
        frames: The wanted frame numbers, in the order asked; for messages.
        plan: Which packets.
        data: The packets' bytes, run after run.
    """

    video: Video
    frames: npt.NDArray[np.int64]
    plan: SlicePlan
    data: tuple[tuple[bytes, ...], ...]

    def rows_of_packet(self) -> dict[int, list[int]]:
        """For every wanted packet the rows of the output that its frame belongs in."""
        rows: dict[int, list[int]] = {}
        for row, packet in enumerate(self.plan.wanted.tolist()):
            rows.setdefault(packet, []).append(row)
        return rows

    def of_runs(self, first: int, end: int) -> tuple[Slice, npt.NDArray[np.int64]]:
        """The part made of some runs, and the rows of the whole slice's output that it fills."""
        runs = self.plan.runs[first:end]
        rows = np.flatnonzero(np.isin(self.plan.wanted, np.concatenate(runs)))
        plan = SlicePlan(runs, self.plan.wanted[rows])
        return Slice(self.video, self.frames[rows], plan, self.data[first:end]), rows

    def packets(self) -> Iterator[tuple[int, bytes]]:
        """(packet number, bytes) of all runs."""
        for run, data in zip(self.plan.runs, self.data, strict=True):
            yield from zip(run.tolist(), data, strict=True)


class Decoder(Protocol):
    """One backend, with whatever it keeps open between clips. Used by one thread at a time.

    Attributes:
        name: What it is called.
        convert_seconds: Of the time of all that was decoded, what placing wanted frames took (scaling, colours,
            turning), as far as it can be told from decoding.
        reused: How often it decoded a run with something open already.
        opened: How often it had to open it.
    """

    name: str
    convert_seconds: float
    reused: int
    opened: int

    def decode(self, piece: Slice, placement: Placement, out: Frames, *, lenient: bool = False) -> None:
        """Decode the wanted frames of a slice into memory that is given.

        Args:
            piece: The slice.
            placement: What of the picture, how large, mirrored or not.
            out: uint8[T, H, W, 3] with T the number of wanted frames and H, W those of the placement's window.
            lenient: Take what a decoder makes of damaged packets, as far as a frame comes out.

        Raises:
            DecodeError: If a frame can't be decoded, or comes out damaged. `out` then holds nothing of use.
        """
        ...

    def close(self) -> None:
        """Let go of all that is kept open."""
        ...


def make_packet(data: bytes) -> av.Packet[Stream]:
    """A packet with a copy of its bytes, followed by the zeros that decoders read past the end.

    PyAV's ``Packet(data)`` points at the bytes as they are; what happens to lie behind them then changes pictures
    (seen with MPEG-4). libavcodec's AV_INPUT_BUFFER_PADDING_SIZE asks for zeros there.
    """
    packet = av.Packet(len(data))
    packet.update(data)
    return packet


def undecoded(piece: Slice, backend: str, packets: list[int], reason: str) -> DecodeError:
    """The error for wanted packets whose frames didn't come out right; names video, frames and backend."""
    wrong = set(packets)
    frames = sorted({int(f) for f, p in zip(piece.frames, piece.plan.wanted.tolist(), strict=True) if p in wrong})
    shown = ", ".join(map(str, frames[:8])) + (", …" if len(frames) > 8 else "")
    return DecodeError(
        f"{piece.video.path}: frame{'s' if len(frames) > 1 else ''} {shown}: {reason} (decoder {backend})"
    )
