"""One film, for looking at it in a notebook and for tests: frames by number or by time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType

import numpy as np
import numpy.typing as npt

from vidload.decode.backends import Backends, DecoderName
from vidload.decode.protocol import Frames
from vidload.errors import ArgumentError
from vidload.index.demux import demux_video
from vidload.index.video import IntArray, Video
from vidload.transforms.geometry import Geometry, make_geometry

__all__ = ["Film", "open_video"]


class Film:
    """A film opened for random access.

    Use `open_video`. Decoders stay open until `close`, or the end of a with block.
    """

    def __init__(self, video: Video, decoder: DecoderName = "auto") -> None:
        self.video = video
        self._backends = Backends(decoder)

    def __len__(self) -> int:
        return self.video.num_frames

    def __repr__(self) -> str:
        return (
            f"<Film {self.video.path!r}: {len(self)} frames of {self.width}×{self.height}, {self.video.codec}, "
            f"{self.fps:.3f} fps>"
        )

    @property
    def pts(self) -> npt.NDArray[np.float64]:
        """float64[frames], presentation times in seconds."""
        return self.video.pts()

    @property
    def width(self) -> int:
        """Columns in pixels, as shown."""
        return self.video.display_size[0]

    @property
    def height(self) -> int:
        """Rows in pixels, as shown."""
        return self.video.display_size[1]

    @property
    def fps(self) -> float:
        """Average frames per second."""
        return self.video.fps

    def frames(
        self, numbers: Sequence[int] | IntArray, *, size: int | tuple[int, int] | Geometry | None = None
    ) -> Frames:
        """Frames by number.

        Args:
            numbers: Frame numbers, in any order, repeats allowed; negative ones count from the end.
            size: None for native size; a side or (height, width) in pixels, scaled and cut at the centre; or a
                geometry.

        Returns:
            uint8[T, H, W, 3], RGB, in the order asked.

        Raises:
            ArgumentError: If a number is outside the film.
            StaleIndexError: If the file has changed since it was opened.
            DecodeError: If a frame can't be decoded, or comes out damaged.
        """
        wanted = np.asarray(numbers)
        if wanted.size == 0:
            wanted = wanted.astype(np.int64)
        if wanted.ndim != 1 or not np.issubdtype(wanted.dtype, np.integer):
            raise ArgumentError(f"numbers={numbers!r}: give a list of frame numbers")
        placement = make_geometry(size).plan(self.width, self.height, lambda: 0.5)
        out = np.empty((len(wanted), placement.window[3], placement.window[2], 3), np.uint8)
        if len(wanted):
            # Beyond either end is refused by the slice, which names the film; -1 to -len are the last to the first.
            from_start = np.where((wanted < 0) & (wanted >= -len(self)), wanted + len(self), wanted)
            self._backends.decode(self.video, from_start, placement, out)
        return out

    def at(self, seconds: float, *, size: int | tuple[int, int] | Geometry | None = None) -> Frames:
        """The frame shown at a time: the last one with pts ≤ `seconds`.

        Returns:
            uint8[H, W, 3], RGB.

        Raises:
            ArgumentError: If the time lies before the first frame or after the end of the last one.
        """
        start = float(self.video.pts(np.array([0]))[0])
        end = start + self.video.duration
        if not start - 0.5 / max(self.fps, 1) <= seconds <= end + 0.5 / max(self.fps, 1):
            raise ArgumentError(
                f"{self.video.path}: {seconds} s is outside the film, which goes from {start} to {end} s"
            )
        frame: Frames = self.frames(self.video.frames_at(np.array([seconds])), size=size)[0]
        return frame

    def close(self) -> None:
        """Close the decoders."""
        self._backends.close()

    def __enter__(self) -> Film:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_video(path: str | os.PathLike[str], decoder: DecoderName = "auto") -> Film:
    """Open a film that needs no index.

    Args:
        path: The file; it is demuxed once, which takes about 0.1 s for 5 minutes.
        decoder: ``"auto"``, ``"decord"``, ``"pyav"`` or ``"torchcodec"``.

    Returns:
        The film: `len`, `pts`, `width`, `height`, `fps`, `frames`, `at`.

    Raises:
        UnreadableVideoError: If the file is missing, is cut short, or can't be read as a video.
        ArgumentError: If there is no such decoder.
    """
    return Film(demux_video(path), decoder)
