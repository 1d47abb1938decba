"""Backend ``decord``: opened on a slice in memory, never on a film.

On whole films decord returns wrong frames for open GOPs, AVI, TS and trimmed mp4, and decodes far ahead. A slice holds
only frames that decode, starts with a keyframe and has simple times, and is closed with its clip.
"""

from __future__ import annotations

import io
import time

import numpy as np
import numpy.typing as npt

from vidload.decode.container import mux_slice, split_runs
from vidload.decode.orient import as_coded, as_shown
from vidload.decode.protocol import Frames, Slice, undecoded
from vidload.decode.scale import crop_and_scale
from vidload.transforms.geometry import Placement

__all__ = ["DecordDecoder", "gives_width"]

# decord gives a frame again where one can't be decoded, and counts these; this share of them is too much.
_TOLERATED_SHARE = 1e-9
_ANY = -1
# Pixels that libavutil pads a row to, by the vector registers of the processor.
_ROW_ALIGNMENTS = (16, 32, 64)


def gives_width(width: int) -> bool:
    """Whether decord can give pictures of a width.

    It divides the bytes of a row, padding and all, by the width and takes the result for the number of channels: where
    that is a whole number above 3 (96 pixels in a row of 384 bytes, say), it fails.
    """
    padded = (-(-width // alignment) * alignment for alignment in _ROW_ALIGNMENTS)
    return all(row == width or 3 * row % width for row in padded)


class DecordDecoder:
    """Decodes slices with decord.

    Args:
        threads: Threads per reader; 1 where several workers share the cores.
    """

    name = "decord"

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self.convert_seconds = 0.0
        self.reused = self.opened = 0

    def decode(self, piece: Slice, placement: Placement, out: Frames, *, lenient: bool = False) -> None:
        """See `vidload.decode.protocol.Decoder.decode`."""
        for part, rows in split_runs(piece):
            self._decode_file(part, placement, out, rows, _ANY if lenient else _TOLERATED_SHARE)

    def _decode_file(
        self, piece: Slice, placement: Placement, out: Frames, rows: npt.NDArray[np.int64], tolerated: float
    ) -> None:
        import decord

        video = piece.video
        coded = as_coded(video, placement)
        file = mux_slice(piece)
        whole = coded.crop == (0, 0, video.width, video.height) and gives_width(coded.scaled[0])
        width, height = coded.scaled if whole else (video.width, video.height)
        wanted, at = np.unique(file.frames, return_inverse=True)
        try:
            reader = decord.VideoReader(
                io.BytesIO(file.data),
                width=width,
                height=height,
                num_threads=self._threads,
                fault_tol=tolerated,
            )
            batch = reader.get_batch(wanted.tolist())
            frames = batch.asnumpy() if hasattr(batch, "asnumpy") else np.asarray(batch)
        except (decord.DECORDError, decord.DECORDLimitReachedError, RuntimeError, IndexError, AssertionError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            raise undecoded(piece, self.name, piece.plan.wanted.tolist(), f"can't be decoded: {reason}") from error
        if frames.shape != (len(wanted), height, width, 3):
            raise undecoded(
                piece, self.name, piece.plan.wanted.tolist(), f"decord gave {frames.shape}, not {len(wanted)} frames"
            )
        start = time.perf_counter()
        x, y, w, h = coded.window
        for row, number in zip(rows.tolist(), at.tolist(), strict=True):
            picture = frames[number] if whole else crop_and_scale(frames[number], coded)
            out[row] = as_shown(video, placement, picture[y : y + h, x : x + w])
        self.convert_seconds += time.perf_counter() - start
        self.opened += 1

    def close(self) -> None:
        """Nothing is kept open."""
