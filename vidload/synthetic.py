"""Films whose frames carry their number in their pixels, for tests, demos and benchmarks.

The number is drawn as a square of 8 x 8 light and dark cells in the middle of the picture, as high as the picture is
(as wide, where it is upright), so that a centre crop to a square keeps all of it:

    row 0       the head, four light cells and four dark ones
    rows 1 - 6  24 bits, each a pair of neighbours: light then dark is 1, dark then light is 0.
                First the number (16 bits), then its checksum (8 bits), most significant bit first.
    row 7       the foot, light and dark in twos

As each bit is the sign of a difference, neither brightness nor contrast nor the colour matrix can change it, and as
head and foot differ and have a left and a right, a picture that is mirrored or upside down doesn't read.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import av.codec.context
import av.video.frame
import numpy as np
import numpy.typing as npt

from vidload.errors import ArgumentError

__all__ = ["kept_scheduling", "loop_film", "make_frame", "read_number", "write_film"]

Frame = npt.NDArray[np.uint8]

CELLS = 8
"""Cells along a side of the mark."""
HEAD = (1, 1, 1, 1, 0, 0, 0, 0)
FOOT = (1, 1, 0, 0, 1, 1, 0, 0)
DARK, LIGHT = 48, 208
SWING = 40
"""Largest change of a channel by the moving texture: two cells of a pair still differ by at least 80 levels."""
MIN_CONTRAST = 40
"""Least difference of two cells, in 8-bit levels, that counts as a bit."""
MAX_NUMBER = 65535
MIN_SIDE = 16

ENCODERS = ("libx264", "libx265", "libvpx", "libvpx-vp9", "libsvtav1", "mpeg4", "mpeg2video", "mjpeg", "ffv1")


def _checksum(number: int) -> int:
    # A product with an odd constant spreads each bit upwards; the top byte then depends on all of them.
    return ((number + 1) * 0x9E3779B1 & 0xFFFFFFFF) >> 24


def _cells(number: int) -> npt.NDArray[np.bool_]:
    word = number << 8 | _checksum(number)
    bits = [bool(word >> shift & 1) for shift in range(23, -1, -1)]
    pairs = [cell for bit in bits for cell in (bit, not bit)]
    return np.array([*HEAD, *pairs, *FOOT], bool).reshape(CELLS, CELLS)


def _mark_edges(length: int, share: float) -> npt.NDArray[np.float64]:
    """Where cells begin and end along a side of `length` pixels of which the mark takes the middle `share`."""
    return length * (0.5 + share * np.linspace(-0.5, 0.5, CELLS + 1))


def _mark_shares(aspect: float) -> tuple[float, float]:
    """Shares of the picture's height and width that the mark takes, for a picture's width over height."""
    return min(1.0, aspect), min(1.0, 1.0 / aspect)


def make_frame(number: int, width: int = 256, height: int = 128) -> Frame:
    """Draw a picture that carries a number.

    Args:
        number: 0 to 65535.
        width: Columns, at least 16.
        height: Rows, at least 16.

    Returns:
        uint8[height, width, 3], RGB; grey outside the mark.

    Raises:
        ArgumentError: If the number doesn't fit in 16 bits or a side is too short.
    """
    _check_number("number", number)
    _check_sides(width, height)
    frame = np.full((height, width, 3), (DARK + LIGHT) // 2, np.uint8)
    rows, columns = (
        np.round(_mark_edges(length, share)).astype(int)
        for length, share in zip((height, width), _mark_shares(width / height), strict=True)
    )
    levels = np.where(_cells(number), LIGHT, DARK).astype(np.uint8)
    levels = np.repeat(np.repeat(levels, np.diff(rows), axis=0), np.diff(columns), axis=1)
    frame[rows[0] : rows[-1], columns[0] : columns[-1]] = levels[..., None]
    return frame


def read_number(frame: npt.NDArray[Any], *, mirrored: bool = False, aspect: float | None = None) -> int:
    """Read the number that `make_frame` drew, from a decoded, scaled or centre-cropped picture.

    Args:
        frame: uint8[H, W, 3] (RGB) or uint8[H, W] (grey), at least 32 x 32 pixels of it inside the mark.
        mirrored: Whether the picture was mirrored left to right.
        aspect: Width over height of the picture before it was squeezed; None where pixels are still square.

    Returns:
        The number, or -1 where none can be read: a blank or damaged picture, two frames blended, a mirrored or turned
        one, another part of the picture.
    """
    grey = np.asarray(frame, np.float64)
    if grey.ndim == 3:
        grey = grey.mean(-1)
    if grey.ndim != 2 or min(grey.shape) < MIN_SIDE:
        return -1
    if mirrored:
        grey = grey[:, ::-1]
    height, width = grey.shape
    share_y, share_x = _mark_shares(width / height if aspect is None else aspect)
    row_spans = _inner_spans(_mark_edges(height, share_y))
    column_spans = _inner_spans(_mark_edges(width, share_x))
    levels = np.array(
        [[grey[top:bottom, left:right].mean() for left, right in column_spans] for top, bottom in row_spans]
    )
    middle = (levels[0].max() + levels[0].min()) / 2
    for row, pattern in ((levels[0], HEAD), (levels[-1], FOOT)):
        if (np.where(pattern, row - middle, middle - row) < MIN_CONTRAST / 2).any():
            return -1
    pairs = levels[1:-1].reshape(-1, 2)
    differences = pairs[:, 0] - pairs[:, 1]
    if np.abs(differences).min() < MIN_CONTRAST:
        return -1
    word = int("".join("1" if difference > 0 else "0" for difference in differences), 2)
    number, checksum = word >> 8, word & 0xFF
    return number if checksum == _checksum(number) else -1


def _inner_spans(edges: npt.NDArray[np.float64]) -> list[tuple[int, int]]:
    """The middle half of each cell: coding and scaling blur its border."""
    spans = []
    for low, high in itertools.pairwise(edges):
        start = int(np.floor(low + (high - low) / 4 + 0.5))
        spans.append((start, max(start + 1, int(np.floor(high - (high - low) / 4 + 0.5)))))
    return spans


@contextmanager
def kept_scheduling() -> Iterator[None]:
    """Undo what SVT-AV1 does where it may: it makes the calling thread a real-time one (SCHED_FIFO, priority 99).

    All that the process starts afterwards would be so too, and one busy worker per core would stop everything else.
    """
    if not hasattr(os, "sched_getscheduler"):
        yield
        return
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        if os.sched_getscheduler(0) != policy:
            os.sched_setscheduler(0, policy, parameters)


def write_film(
    path: str | Path,
    num_frames: int,
    *,
    width: int = 256,
    height: int = 128,
    fps: int | Fraction = 25,
    codec: str = "libx264",
    gop: int = 12,
    b_frames: int = 2,
    open_gop: bool = False,
    first_number: int = 0,
    pts: Sequence[int] | None = None,
    options: Mapping[str, str] | None = None,
    moving: bool = False,
    look: int = 0,
) -> Path:
    """Write a film of which each frame carries its number.

    The same arguments give the same bytes with the same version of FFmpeg's libraries: one encoding thread, no dates.

    Args:
        path: File to write; the suffix chooses the container (``.mp4 .mov .mkv .webm .avi .ts``).
        num_frames: Frames to write.
        width: Columns, even, at least 16 (64 for ``libsvtav1``).
        height: Rows, even, at least 16 (64 for ``libsvtav1``).
        fps: Frames per second of a film of constant rate.
        codec: One of FFmpeg's encoders ``libx264 libx265 libvpx libvpx-vp9 libsvtav1 mpeg4 mpeg2video mjpeg ffv1``.
        gop: Frames from one keyframe to the next; 1 makes every frame a keyframe.
        b_frames: Frames in a row that refer forwards too, for the codecs that have them in their own right (H.264,
            HEVC, MPEG-4, MPEG-2).
        open_gop: Whether frames shown before a keyframe may refer to the GOP before it (H.264, HEVC).
        first_number: Number of the first frame; the following count up.
        pts: Presentation times in milliseconds, rising, one per frame, for a film of variable rate; None for `fps`.
        options: Further options of the encoder, which win over those chosen here.
        moving: Draw a texture that drifts over the whole picture, so that a film costs about what a real one does.
        look: Which texture: direction, colours and grain follow from the number.

    Returns:
        The path written.

    Raises:
        ArgumentError: If an argument can't work.
    """
    path = Path(path)
    _check_sides(width, height)
    _check_number("first_number", first_number)
    if num_frames < 1:
        raise ArgumentError(f"num_frames={num_frames!r}: a film has at least one frame")
    _check_number("first_number + num_frames - 1", first_number + num_frames - 1)
    if width % 2 or height % 2:
        raise ArgumentError(f"width={width}, height={height}: both have to be even, colour has half the resolution")
    if codec not in ENCODERS:
        raise ArgumentError(f"codec={codec!r}: give one of {', '.join(ENCODERS)}")
    if pts is not None and (len(pts) != num_frames or (np.diff(pts) <= 0).any()):
        raise ArgumentError(f"pts of {len(pts)} times: give {num_frames} rising ones, one per frame, in milliseconds")
    if codec == "libsvtav1":
        # The encoder library has no other switch for its chatter than this; 1 leaves errors.
        os.environ.setdefault("SVT_LOG", "1")
    rate = Fraction(1000) if pts is not None else Fraction(fps)
    texture = _texture(width, height, look) if moving else None
    with kept_scheduling(), av.open(str(path), "w", options={"fflags": "bitexact"}) as container:
        stream = container.add_stream(codec, rate=rate if pts is None else Fraction(fps))
        context = stream.codec_context
        context.width, context.height, context.pix_fmt = width, height, "yuvj420p" if codec == "mjpeg" else "yuv420p"
        context.time_base = 1 / rate
        context.thread_count = 1
        context.flags |= int(av.codec.context.Flags.bitexact)
        context.options = {**_encoder_options(codec, gop, b_frames, open_gop), **(options or {})}
        for index in range(num_frames):
            picture = make_frame(first_number + index, width, height)
            if texture is not None:
                picture = (picture + next(texture)).astype(np.uint8)
            frame = av.VideoFrame.from_ndarray(picture, "rgb24").reformat(format=context.pix_fmt)
            frame.time_base = 1 / rate
            frame.pts = index if pts is None else int(pts[index])
            frame.pict_type = av.video.frame.PictureType.NONE
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def loop_film(source: str | Path, path: str | Path, times: int) -> Path:
    """Write a long film by repeating a short one's packets, without encoding anything again.

    Args:
        source: Film that starts with a keyframe and has no open GOP at its start, as `write_film` makes them.
        path: File to write; the suffix chooses the container.
        times: How often `source` is repeated.

    Returns:
        The path written.

    Raises:
        ArgumentError: If `times` is below 1.
    """
    if times < 1:
        raise ArgumentError(f"times={times!r}: repeat a film at least once")
    path = Path(path)
    with av.open(str(source)) as short, av.open(str(path), "w", options={"fflags": "bitexact"}) as long:
        stream = short.streams.video[0]
        copy = long.add_stream_from_template(stream)
        packets = [packet for packet in short.demux(stream) if packet.size and packet.pts is not None]
        starts = [int(packet.pts or 0) for packet in packets]
        length = max(start + int(packet.duration or 0) for start, packet in zip(starts, packets, strict=True)) - min(
            starts
        )
        for turn in range(times):
            for packet in packets:
                repeated = av.Packet(bytes(packet))
                repeated.stream, repeated.time_base, repeated.duration = copy, packet.time_base, packet.duration
                repeated.pts, repeated.is_keyframe = int(packet.pts or 0) + turn * length, packet.is_keyframe
                repeated.dts = None if packet.dts is None else packet.dts + turn * length
                long.mux(repeated)
    return path


def _encoder_options(codec: str, gop: int, b_frames: int, open_gop: bool) -> dict[str, str]:
    """Options that fix the GOP's structure and keep the encoder silent, single-threaded and repeatable."""
    structure = f"keyint={gop}:min-keyint={gop}:scenecut=0:bframes={b_frames}:b-adapt=0:open-gop={int(open_gop)}"
    if codec == "libx264":
        return {"x264-params": f"{structure}:threads=1"}
    if codec == "libx265":
        return {"x265-params": f"{structure}:pools=none:frame-threads=1:log-level=none:info=0", "preset": "fast"}
    shared = {"g": str(gop)}
    if codec in ("libvpx", "libvpx-vp9"):
        return shared | {"auto-alt-ref": "0", "lag-in-frames": "0", "deadline": "realtime", "cpu-used": "5", "b": "1M"}
    if codec == "libsvtav1":
        return shared | {"preset": "7", "crf": "30", "svtav1-params": "lp=1:scd=0"}
    if codec in ("mpeg4", "mpeg2video"):
        return shared | {"bf": str(b_frames), "sc_threshold": "1000000000", "qmin": "3", "qmax": "5"}
    if codec == "mjpeg":
        return {"qmin": "3", "qmax": "5"}
    return shared


def _texture(width: int, height: int, look: int) -> Iterator[npt.NDArray[np.int16]]:
    """Endless int16[height, width, 3] of waves and grain within ±`SWING`, each a step further than the one before."""
    random = np.random.default_rng(look)
    period = 512
    along = np.arange(period) * (2 * np.pi / period)
    waves = np.zeros((period, period, 3))
    for _ in range(6):
        # Whole numbers of waves per period, so that the tile has no seam.
        count_y, count_x = random.integers(-8, 9, 2)
        phase = count_y * along[:, None, None] + count_x * along[None, :, None] + random.uniform(0, 2 * np.pi)
        waves += np.sin(phase) * random.uniform(-1, 1, 3)
    grain_share = 0.2
    tile = np.round(waves / np.abs(waves).max() * SWING * (1 - grain_share)).astype(np.int16)
    grain = np.round(random.uniform(-1, 1, (period, period, 3)) * SWING * grain_share).astype(np.int16)
    angle = random.uniform(0, 2 * np.pi)
    # Repeated as far as a picture reaches, so that each frame is a plain slice.
    tile, grain = (np.pad(plane, ((0, height), (0, width), (0, 0)), "wrap") for plane in (tile, grain))
    for step in itertools.count():
        down, right = -round(3 * step * np.sin(angle)) % period, -round(3 * step * np.cos(angle)) % period
        grain_down, grain_right = random.integers(0, period, 2)
        yield (
            tile[down : down + height, right : right + width]
            + grain[grain_down : grain_down + height, grain_right : grain_right + width]
        )


def _check_number(name: str, number: int) -> None:
    if not 0 <= number <= MAX_NUMBER:
        raise ArgumentError(f"{name}={number!r}: give a number within 0 to {MAX_NUMBER}")


def _check_sides(width: int, height: int) -> None:
    if min(width, height) < MIN_SIDE:
        raise ArgumentError(f"width={width!r}, height={height!r}: the cells need {MIN_SIDE} pixels each way or more")
