"""A slice as a little file in memory, for backends that want a file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import av
import numpy as np
import numpy.typing as npt
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext

from vidload.decode.protocol import Slice, make_packet, undecoded
from vidload.index.bitstream import packet_role
from vidload.index.header import open_header
from vidload.index.video import Video

__all__ = ["SliceFile", "mux_slice", "split_runs", "starts_afresh"]

# mp4 for what it can hold, AVI for VP8 and a few others (it counts frames, as decord wants it), then the rest.
_FORMATS = ("mp4", "avi", "matroska", "nut")
_BT709, _UNSTATED, _BT601 = 1, 2, 6  # of AVColorSpace, AVColorPrimaries and AVColorTransferCharacteristic alike
_FPS = 25  # of no meaning: frames are asked for by number


@dataclass(frozen=True, slots=True)
class SliceFile:
    """A slice muxed in memory.

    Attributes:
        data: The file. It starts with a keyframe, and its frame times are 0, 1, 2, … of one unit.
        container: Name of its muxer.
        frames: int64[frames], for every wanted frame, in the order asked, its number in this file.
    """

    data: bytes
    container: str
    frames: npt.NDArray[np.int64]


def mux_slice(piece: Slice) -> SliceFile:
    """Mux a slice, each packet giving one frame.

    Raises:
        DecodeError: If no container takes the stream.
    """
    packets = np.concatenate(piece.plan.runs)
    shown = _ranks(piece)
    # A frame can't be shown before it is decoded: all are shown as late as the most reordered one needs.
    delay = int(max(np.max(np.arange(len(packets)) - shown), 0))
    for name in _FORMATS:
        target = io.BytesIO()
        try:
            with open_header(piece.video.header) as header, av.open(target, "w", format=name) as container:
                stream = container.add_stream_from_template(header.streams.video[0], opaque=True)
                stream.time_base = Fraction(1, _FPS)
                context = stream.codec_context
                context.width, context.height = piece.video.width, piece.video.height
                context.pix_fmt = piece.video.pix_fmt  # mp4 states it of VP9
                _state_colours(context, piece.video)
                for number, (_, payload) in enumerate(piece.packets()):
                    packet = make_packet(payload)
                    packet.time_base = Fraction(1, _FPS)
                    packet.dts = number
                    packet.pts = int(shown[number]) + delay
                    packet.duration = 1
                    packet.is_keyframe = number == 0  # readers that know of others jump to them, and miscount
                    packet.stream = stream
                    container.mux(packet)
        except ValueError:
            continue  # this container doesn't take the codec
        except FFmpegError as error:
            raise undecoded(
                piece, name, piece.plan.wanted.tolist(), f"its packets can't be put into a file: {error}"
            ) from error
        position = {packet: int(rank) for packet, rank in zip(packets.tolist(), shown, strict=True)}
        frames = np.array([position[packet] for packet in piece.plan.wanted.tolist()], np.int64)
        return SliceFile(target.getvalue(), name, frames)
    raise undecoded(piece, "any", piece.plan.wanted.tolist(), f"no container holds codec {piece.video.codec}")


def _state_colours(context: VideoCodecContext, video: Video) -> None:
    """State matrix and range, for codecs that don't state their own; the header doesn't keep the container's."""
    if (video.color_space, video.color_range) == (_UNSTATED, 0):
        return
    context.color_range = video.color_range
    # mp4 states colours only where all are known. BT.601 is what is taken where no matrix is stated; the other two
    # change nothing in a conversion to RGB.
    context.colorspace = _BT601 if video.color_space == _UNSTATED else video.color_space
    context.color_primaries = _BT709 if video.color_primaries == _UNSTATED else video.color_primaries
    context.color_trc = _BT709 if video.color_trc == _UNSTATED else video.color_trc


def split_runs(piece: Slice) -> Iterator[tuple[Slice, npt.NDArray[np.int64]]]:
    """The parts of a slice that go into one file each, and for each the rows of the whole slice's output it fills."""
    ends = [number for number in range(1, len(piece.data)) if not _continues(piece, number)] + [len(piece.data)]
    first = 0
    for end in ends:
        yield piece.of_runs(first, end)
        first = end


def _continues(piece: Slice, number: int) -> bool:
    """Whether a run may follow the one before in the same file: its keyframe makes the decoder forget all before.

    HEVC's decoder does so too, but then gives several frames at once, which decord takes for a failure.
    """
    codec = piece.video.codec
    if codec == "h264":
        return starts_afresh(piece, number)
    return codec in ("av1", "vp8", "vp9", "mjpeg")


def starts_afresh(piece: Slice, number: int) -> bool:
    """Whether a run of H.264 starts with an IDR picture, which makes a decoder forget all before."""
    with open_header(piece.video.header) as header:
        extradata = header.streams.video[0].codec_context.extradata
    role = packet_role(piece.video.codec, extradata)
    return role is not None and role(piece.data[number][0]).resets


def _ranks(piece: Slice) -> npt.NDArray[np.int64]:
    """For every packet its frame's number in the order of presentation, run after run."""
    parts, before = [], 0
    for run in piece.plan.runs:
        pts = piece.video.packet_pts[run]
        if len(np.unique(pts)) == len(pts):
            order = np.argsort(pts)
        else:  # frames of one time are shown in the order of their numbers
            number = np.full(len(piece.video.packet_pts), -1)
            number[piece.video.frame_packets] = np.arange(piece.video.num_frames)
            order = np.lexsort((number[run], pts))
        rank = np.empty(len(run), np.int64)
        rank[order] = np.arange(len(run)) + before
        parts.append(rank)
        before += len(run)
    return np.concatenate(parts)
