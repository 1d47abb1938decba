"""One film, for looking at it in a notebook and for tests: frames by number or by time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Literal

import numpy as np
import numpy.typing as npt

from vidload.decode.backends import MAX_PIXELS, Backends, Concealed, DecoderName, needs_pyav
from vidload.decode.protocol import AnyFrames
from vidload.decode.shown import plan_placement, shown_size, turned
from vidload.errors import ArgumentError
from vidload.index.demux import demux_video
from vidload.index.video import IntArray, Video
from vidload.transforms.geometry import Geometry, make_geometry
from vidload.transforms.planar import DTYPES, clip_shape

__all__ = ["Film", "open_video"]


class Film:
    """A film opened for random access.

    Use `open_video`. Decoders stay open until `close`, or the end of a with block.
    """

    def __init__(
        self,
        video: Video,
        decoder: DecoderName = "auto",
        *,
        apply_rotation: bool = True,
        square_pixels: bool = False,
        deinterlace: bool = False,
        concealed: Concealed = "error",
        dtype: Literal["uint8", "uint16"] = "uint8",
    ) -> None:
        self.video = turned(video, apply_rotation)
        self._square_pixels = square_pixels
        if dtype not in DTYPES:
            raise ArgumentError(f"dtype={dtype!r}: there are {' and '.join(map(repr, DTYPES))}")
        if dtype != "uint8":
            needs_pyav(decoder, f"dtype={dtype!r}")
        self._wire = DTYPES[dtype]
        self._backends = Backends(decoder, deinterlace=deinterlace, concealed=concealed)

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
        return shown_size(self.video, self._square_pixels)[0]

    @property
    def height(self) -> int:
        """Rows in pixels, as shown."""
        return shown_size(self.video, self._square_pixels)[1]

    @property
    def fps(self) -> float:
        """Average frames per second."""
        return self.video.fps

    def frames(
        self, numbers: Sequence[int] | IntArray, *, size: int | tuple[int, int] | Geometry | None = None
    ) -> AnyFrames:
        """Frames by number.

        Args:
            numbers: Frame numbers, in any order, repeats allowed; negative ones count from the end.
            size: None for native size; a side or (height, width) in pixels, scaled and cut at the centre; or a
                geometry.

        Returns:
            uint8[T, H, W, 3], or uint16, RGB, in the order asked.

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
        placement = plan_placement(
            self.video, make_geometry(size), lambda: 0.5, square_pixels=self._square_pixels, max_pixels=MAX_PIXELS
        )
        out = np.empty(clip_shape(self._wire, len(wanted), placement.window[3], placement.window[2]), np.uint8)
        if len(wanted):
            # Beyond either end is refused by the slice, which names the film; -1 to -len are the last to the first.
            from_start = np.where((wanted < 0) & (wanted >= -len(self)), wanted + len(self), wanted)
            self._backends.decode(self.video, from_start, placement, out, wire=self._wire)
        return out.view(np.uint16) if self._wire == "rgb48" else out

    def at(self, seconds: float, *, size: int | tuple[int, int] | Geometry | None = None) -> AnyFrames:
        """The frame shown at a time: the last one with pts ≤ `seconds`.

        Returns:
            uint8[H, W, 3], or uint16, RGB.

        Raises:
            ArgumentError: If the time lies before the first frame or after the end of the last one.
        """
        start = float(self.video.pts(np.array([0]))[0])
        end = start + self.video.duration
        if not start - 0.5 / max(self.fps, 1) <= seconds <= end + 0.5 / max(self.fps, 1):
            raise ArgumentError(
                f"{self.video.path}: {seconds} s is outside the film, which goes from {start} to {end} s"
            )
        frame: AnyFrames = self.frames(self.video.frames_at(np.array([seconds])), size=size)[0]
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


def open_video(
    path: str | os.PathLike[str],
    decoder: DecoderName = "auto",
    *,
    stream: int | None = None,
    apply_rotation: bool = True,
    square_pixels: bool = False,
    deinterlace: bool = False,
    concealed: Concealed = "error",
    dtype: Literal["uint8", "uint16"] = "uint8",
) -> Film:
    """Open a film that needs no index.

    Args:
        path: The file; it is demuxed once, which takes about 0.1 s for 5 minutes.
        decoder: ``"auto"``, ``"decord"``, ``"pyav"`` or ``"torchcodec"``.
        stream: Number of the stream in the file; by default the one that libavformat ranks best among those that are no
            cover picture.
        apply_rotation: As of `vidload.ClipDataset`, and so are all that follow.
        square_pixels: Whether pixels are made square.
        deinterlace: Whether frames of two fields become pictures of their first one.
        concealed: Whether damaged frames are an error, or ``"allow"`` gives them as they come.
        dtype: ``"uint8"`` or ``"uint16"``.

    Returns:
        The film: `len`, `pts`, `width`, `height`, `fps`, `frames`, `at`.

    Raises:
        UnreadableVideoError: If the file is missing, is cut short, or can't be read as a video.
        ArgumentError: If there is no such decoder, or it can't give what is asked for.
    """
    return Film(
        demux_video(path, stream=stream),
        decoder,
        apply_rotation=apply_rotation,
        square_pixels=square_pixels,
        deinterlace=deinterlace,
        concealed=concealed,
        dtype=dtype,
    )
