"""Backend ``pyav``: packets straight into a codec context, pictures through one libavfilter graph.

Opening a codec takes a lock that is global in FFmpeg, so contexts are kept between clips; films with the same stream
header share one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from av.error import FFmpegError
from av.filter import Graph
from av.video.codeccontext import VideoCodecContext
from av.video.format import VideoFormat
from av.video.frame import VideoFrame

from vidload.decode.bounded import BoundedCache
from vidload.decode.fields import DEINTERLACER, filtered
from vidload.decode.orient import as_coded, as_shown
from vidload.decode.planes import PlanesWriter
from vidload.decode.protocol import AnyFrames, Frames, Slice, make_packet, undecoded
from vidload.decode.slice import spoiled_by
from vidload.errors import DecodeError
from vidload.index.header import open_header
from vidload.index.opening import MAX_CODED_PIXELS
from vidload.index.video import Video
from vidload.transforms.geometry import Placement
from vidload.transforms.planar import PlaneColour

__all__ = ["PyAVDecoder", "open_context"]

_MAX_CONTEXTS = 8
# Codecs whose decoders start afresh when flushed. MPEG-4's, for one, keeps the times of what it decoded before.
_FLUSHABLE = frozenset({"av1", "h264", "hevc", "vp8", "vp9"})
_MAX_GRAPHS = 8
# An error that a decoder notices is one, not something to be painted over; hashes of pictures are compared. Not for
# H.264: its decoder marks frames that are damaged, and to be strict it would refuse whole ones after a start that is no
# IDR picture.
_STRICT = {"err_detect": "crccheck+explode"}
_MARK_DAMAGE = frozenset({"h264"})
_PIXELS = {"uint8": "rgb24", "uint16": "rgb48le"}


class PyAVDecoder:
    """Decodes slices with PyAV.

    Args:
        threads: Threads per codec context; 1 where several workers share the cores.
        max_pixels: Largest picture that a codec takes memory for, whatever the film's header says.
        deinterlace: Whether frames that are coded as two fields become pictures of their first one.
    """

    name = "pyav"

    def __init__(self, threads: int = 1, *, max_pixels: int = MAX_CODED_PIXELS, deinterlace: bool = False) -> None:
        self._threads = threads
        self._max_pixels = max_pixels
        self._deinterlace = deinterlace
        self.convert_seconds = 0.0
        self.reused = self.opened = 0
        self._contexts: BoundedCache[tuple[object, ...], VideoCodecContext] = BoundedCache(_MAX_CONTEXTS)
        self._graphs: BoundedCache[tuple[object, ...], Graph] = BoundedCache(_MAX_GRAPHS)

    def decode(self, piece: Slice, placement: Placement, out: AnyFrames, *, lenient: bool = False) -> None:
        """See `vidload.decode.protocol.Decoder.decode`; `out` may be uint16 too."""
        video, coded = piece.video, as_coded(piece.video, placement)

        def write(packet: int, frame: VideoFrame, rows: list[int]) -> None:
            picture = as_shown(video, placement, self._place(frame, coded, out.dtype))
            for row in rows:
                out[row] = picture

        self._decode(piece, write, lenient=lenient)

    def decode_planes(self, piece: Slice, placement: Placement, out: Frames, *, lenient: bool = False) -> PlaneColour:
        """Like `decode`, to planar YUV 4:2:0.

        Args:
            piece: The slice.
            placement: What of the picture, how large (both sides even), mirrored or not.
            out: uint8[T, H * 3 // 2, W], in one piece; see `vidload.transforms.planar.Wire`.
            lenient: As of `decode`.

        Returns:
            What the numbers in the planes mean.

        Raises:
            DecodeError: As `decode`; or if a frame's colour matrix isn't known.
        """
        planes = PlanesWriter(piece, placement, out, self._graphs, deinterlace=self._deinterlace)
        self._decode(piece, planes.write, lenient=lenient)
        return planes.colour

    def _decode(self, piece: Slice, write: Callable[[int, VideoFrame, list[int]], None], *, lenient: bool) -> None:
        """Decode a slice, and write each wanted frame: (packet, frame, rows)."""
        video = piece.video
        rows = piece.rows_of_packet()
        corrupt: list[int] = []

        def take(frames: list[VideoFrame]) -> None:
            for frame in frames:
                packet = frame.pts
                if packet is None:
                    continue
                if frame.is_corrupt and not lenient:
                    corrupt.append(packet)
                targets = rows.pop(packet, None)
                if targets is None:
                    continue
                if (frame.width, frame.height) != (video.width, video.height):
                    raise undecoded(
                        piece,
                        self.name,
                        [packet],
                        f"the picture is {frame.width}×{frame.height} here, but {video.width}×{video.height} elsewhere",
                    )
                start = time.perf_counter()
                write(packet, frame, targets)
                self.convert_seconds += time.perf_counter() - start

        number = -1
        try:
            for run, data in zip(piece.plan.runs, piece.data, strict=True):
                context = self._context(video, lenient)
                for number, payload in zip(run.tolist(), data, strict=True):
                    packet = make_packet(payload)
                    packet.pts = packet.dts = number  # the frame's pts then is the number of its packet
                    try:
                        take(context.decode(packet))
                    except FFmpegError:
                        if not lenient:
                            raise
                take(context.decode(None))
                context.flush_buffers()
        except FFmpegError as error:
            self._contexts.discard(_key(video, lenient))
            wanted = sorted(rows) or [number]
            raise undecoded(piece, self.name, wanted, f"decoding packet {number} fails: {error.strerror}") from error
        except DecodeError:
            self._contexts.discard(_key(video, lenient))
            raise
        if corrupt or rows:
            self._contexts.discard(_key(video, lenient))
        damaged = spoiled_by(video, piece.plan.wanted, corrupt)
        if damaged:
            raise undecoded(piece, self.name, damaged, "comes out damaged")
        if rows:
            raise undecoded(piece, self.name, sorted(rows), "doesn't come out of the decoder")

    def close(self) -> None:
        """Let go of all contexts and graphs."""
        self._contexts.clear()
        self._graphs.clear()

    def _context(self, video: Video, lenient: bool) -> VideoCodecContext:
        opened = self.opened
        if video.codec not in _FLUSHABLE:
            return self._open(video, lenient)
        context = self._contexts.get(_key(video, lenient), lambda: self._open(video, lenient))
        self.reused += self.opened == opened
        return context

    def _open(self, video: Video, lenient: bool) -> VideoCodecContext:
        self.opened += 1
        return open_context(video, threads=self._threads, max_pixels=self._max_pixels, lenient=lenient)

    def _place(self, frame: VideoFrame, placement: Placement, dtype: np.dtype[Any]) -> AnyFrames:
        # A scaler goes on with the matrix it had where a frame states none: colours are part of the key.
        pixels = (frame.width, frame.height, frame.format.name, int(frame.colorspace), int(frame.color_range))
        fields = self._deinterlace and frame.interlaced_frame
        key = (dtype.name, fields, *pixels, placement.crop, placement.scaled)
        graph = self._graphs.get(key, lambda: _make_graph(frame, placement, _PIXELS[dtype.name], fields))
        placed = filtered(graph, frame, fields)
        plane = placed.planes[0]
        lines = np.frombuffer(memoryview(plane), dtype).reshape(plane.height, -1)
        picture = lines[:, : plane.width * 3].reshape(plane.height, plane.width, 3)
        x, y, width, height = placement.window
        window: AnyFrames = picture[y : y + height, x : x + width]
        return window


def open_context(
    video: Video, *, threads: int = 1, max_pixels: int = MAX_CODED_PIXELS, lenient: bool = False
) -> VideoCodecContext:
    """A codec context for a film's packets.

    Args:
        video: The film.
        threads: libavcodec's threads.
        max_pixels: Largest picture that it takes memory for.
        lenient: Whether it paints over what it can't decode, where it could say so.

    Raises:
        UnreadableVideoError: If the film's stream header can't be read.
    """
    # The header's own context: its configuration record is followed by the zeros that decoders read past the end,
    # which PyAV's setter for it leaves out.
    with open_header(video.header) as header:
        context: VideoCodecContext = header.streams.video[0].codec_context
    context.width, context.height = video.width, video.height
    # Codecs that state no colours of their own have the container's, which the header doesn't keep.
    context.color_range, context.colorspace = video.color_range, video.color_space
    if video.codec_tag:
        context.codec_tag = video.codec_tag
    if video.bits_per_coded_sample:
        context.bits_per_coded_sample = video.bits_per_coded_sample
    context.thread_count = threads
    strict = not lenient and video.codec not in _MARK_DAMAGE
    context.options = {"max_pixels": str(max_pixels)} | (_STRICT if strict else {})
    return context


def _key(video: Video, lenient: bool) -> tuple[object, ...]:
    """What a codec context is set up from."""
    return video.header, video.color_range, video.color_space, lenient


def _make_graph(frame: VideoFrame, placement: Placement, pixels: str, fields: bool) -> Graph:
    """Crop first, scale in the frame's own colour space, convert last: 0.1 ms a frame of 640 × 360 to 224 × 224."""
    graph = Graph()
    graph.threads = 1
    nodes = [
        graph.add_buffer(
            width=frame.width,
            height=frame.height,
            format=VideoFormat(frame.format.name),
            time_base=Fraction(1, 1),
        )
    ]
    if fields:
        nodes.append(graph.add(*DEINTERLACER))
    if placement.crop != (0, 0, frame.width, frame.height):
        x, y, width, height = placement.crop
        nodes.append(graph.add("crop", f"{width}:{height}:{x}:{y}:exact=1"))
    width, height = placement.scaled
    nodes.append(graph.add("scale", f"{width}:{height}:flags=bicubic"))
    nodes.append(graph.add("format", pixels))
    nodes.append(graph.add("buffersink"))
    graph.link_nodes(*nodes).configure()
    return graph
