"""Frames as planar YUV 4:2:0 of 8 bits: placed by libavfilter, with no conversion of colours where none is needed.

A frame keeps its stream's matrix and range, which `PlaneColour` then states; only what isn't YUV becomes so (RGB and
grey: BT.601, full range). Planes are cut, mirrored and turned each by itself, and where chroma lies after that is
stated too, so that nothing is resampled for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from av.filter import Graph
from av.video.format import VideoFormat
from av.video.frame import VideoFrame

from vidload.decode.bounded import BoundedCache
from vidload.decode.fields import DEINTERLACER, filtered
from vidload.decode.orient import as_coded, as_shown
from vidload.decode.protocol import Frames, Slice, undecoded
from vidload.index.video import Video
from vidload.transforms.geometry import Placement
from vidload.transforms.planar import PlaneColour

__all__ = ["PlanesWriter"]

# By AVColorSpace number. Where a YUV picture states none (2) or RGB's (0), libswscale takes BT.601, for RGB output too.
_MATRICES = {
    0: "bt601",
    1: "bt709",
    2: "bt601",
    4: "fcc",
    5: "bt601",
    6: "bt601",
    7: "smpte240m",
    9: "bt2020",
}
_FULL = 2  # AVCOL_RANGE_JPEG
# Their chroma lies in the middle of four luma samples; that of all later codecs between two rows, on a column.
_CENTRED_CODECS = frozenset({"mjpeg", "mpeg1video"})


class PlanesWriter:
    """Places the frames of one clip and writes their planes into its memory.

    Args:
        piece: The clip's slice.
        placement: What of the picture as shown, how large, mirrored or not.
        out: uint8[T, H * 3 // 2, W], in one piece.
        graphs: Where graphs are kept between clips.
        deinterlace: Whether frames that are coded as two fields become pictures of their first one.
    """

    def __init__(
        self,
        piece: Slice,
        placement: Placement,
        out: Frames,
        graphs: BoundedCache[tuple[object, ...], Graph],
        *,
        deinterlace: bool = False,
    ) -> None:
        self._deinterlace = deinterlace
        self._piece = piece
        self._placement = placement
        self._coded = as_coded(piece.video, placement)
        self._frames = out.reshape(len(out), -1)
        self._graphs = graphs
        self._target: PlaneColour | None = None

    @property
    def colour(self) -> PlaneColour:
        """What the numbers written mean, once there are some."""
        assert self._target is not None
        colour = self._target.cut(self._coded.window[0], self._coded.window[1])
        if self._piece.video.mirrored:
            colour = colour.mirrored()
        colour = colour.turned(self._piece.video.rotation // 90)
        return colour.mirrored() if self._placement.flip else colour

    def write(self, packet: int, frame: VideoFrame, rows: Sequence[int]) -> None:
        """Write a decoded frame into rows of the clip.

        Raises:
            DecodeError: If its colours aren't known.
        """
        video, coded = self._piece.video, self._coded
        source = _source_colour(video, frame)
        if source is None:
            raise undecoded(self._piece, "pyav", [packet], f"no conversion for AVColorSpace {int(frame.colorspace)}")
        if self._target is None:  # the clip's first frame says what all of the clip becomes
            self._target = source
        target = self._target
        fields = self._deinterlace and frame.interlaced_frame
        key = (frame.width, frame.height, frame.format.name, source, target, coded.crop, coded.scaled, fields)
        graph = self._graphs.get(key, lambda: _make_graph(frame, source, target, coded, fields))
        placed = filtered(graph, frame, fields)
        start = 0
        for plane in _cut(placed, coded.window):
            shown = as_shown(video, self._placement, plane)
            for row in rows:
                self._frames[row, start : start + shown.size].reshape(shown.shape)[...] = shown
            start += shown.size


def _is_yuv(frame: VideoFrame) -> bool:
    return not (frame.format.is_rgb or frame.format.has_palette or len(frame.format.components) < 3)


def _source_colour(video: Video, frame: VideoFrame) -> PlaneColour | None:
    """What a decoded frame's numbers mean, or are made to mean; None where libswscale doesn't know its matrix."""
    siting = (0.5, 0.5) if video.codec in _CENTRED_CODECS else (0.0, 0.5)
    if not _is_yuv(frame):
        return PlaneColour("bt601", True, siting)
    matrix = _MATRICES.get(int(frame.colorspace))
    if matrix is None:
        return None
    return PlaneColour(matrix, frame.format.name.startswith("yuvj") or int(frame.color_range) == _FULL, siting)


def _make_graph(
    frame: VideoFrame, source: PlaneColour, target: PlaneColour, placement: Placement, fields: bool
) -> Graph:
    """Crop and scale a frame, and make it yuv420p of the target's matrix and range.

    Matrix, range and siting are all stated: what libavfilter negotiates where they aren't depends on the format.
    """
    graph = Graph()
    graph.threads = 1
    size, scaled = (frame.width, frame.height), placement.scaled
    pixels = VideoFormat(frame.format.name)
    nodes = [graph.add_buffer(width=size[0], height=size[1], format=pixels, time_base=Fraction(1, 1))]
    if fields:
        nodes.append(graph.add(*DEINTERLACER))
    if placement.crop != (0, 0, *size):
        x, y, width, height = placement.crop
        if _is_yuv(frame) and (x % 2 or y % 2):  # cut between chroma samples: give each pixel its own first
            nodes.append(graph.add("scale", _scale_options(size, source, target)))
            nodes.append(graph.add("format", "yuv444p"))
            source = target
        nodes.append(graph.add("crop", f"{width}:{height}:{x}:{y}:exact=1"))
    nodes.append(graph.add("scale", _scale_options(scaled, source, target)))
    nodes.append(graph.add("format", "yuv420p"))
    nodes.append(graph.add("buffersink"))
    graph.link_nodes(*nodes).configure()
    return graph


def _scale_options(size: tuple[int, int], source: PlaneColour, target: PlaneColour) -> str:
    options = [f"{size[0]}:{size[1]}:flags=bicubic"]
    for way, colour in (("in", source), ("out", target)):
        options.append(f"{way}_color_matrix={colour.matrix}")
        options.append(f"{way}_range={'full' if colour.full_range else 'limited'}")
        options += [f"{way}_{axis}_chr_pos={round(256 * at)}" for axis, at in zip("hv", source.siting, strict=True)]
    return ":".join(options)


def _cut(placed: VideoFrame, window: tuple[int, int, int, int]) -> tuple[Frames, ...]:
    """Views of a window of the planes Y, U and V; chroma begins as `PlaneColour.cut` says."""
    x, y, width, height = window
    chroma = ((x + 1) // 2, (y + 1) // 2, width // 2, height // 2)
    parts = []
    for plane, (left, top, columns, rows) in zip(placed.planes, (window, chroma, chroma), strict=True):
        lines: Frames = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)
        parts.append(lines[top : top + rows, left : left + columns])
    return tuple(parts)
