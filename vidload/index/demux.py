"""One video file, demuxed once: every fact and every packet that later stages need.

Nothing is decoded but the first frame (it tells the rotation, and that the stream can be decoded at all) — except for
the films whose packets don't say which frames come out of them, and when: see `_is_odd`.
"""

from __future__ import annotations

import os
from fractions import Fraction

import av
import numpy as np
from av.container import InputContainer
from av.video.stream import VideoStream

from vidload.errors import NoVideoStreamError, UnreadableVideoError
from vidload.index.bitstream import TELL_KEYFRAMES
from vidload.index.frames import first_frame, frames_that_come_out
from vidload.index.header import make_header
from vidload.index.opening import open_container, video_stream
from vidload.index.packets import Packets, read_packets
from vidload.index.video import DISCARD, HIDDEN, KEY, Video

__all__ = ["demux_video"]


def demux_video(path: str | os.PathLike[str], *, stream: int | None = None, checksums: bool = False) -> Video:
    """Read one video file from its first to its last packet.

    Args:
        path: The file.
        stream: Number of the stream in the file; by default the one that libavformat ranks best among those that are
            no cover picture.
        checksums: Keep a checksum of every packet, by which bytes that change later are noticed.

    Returns:
        All that is known of it.

    Raises:
        NoVideoStreamError: If there is no video stream, or not one frame.
        UnreadableVideoError: If the file is missing, is cut short, or can't be read as a video.
    """
    path = os.path.abspath(os.fspath(path))
    try:
        stat = os.stat(path)
    except OSError as error:
        raise UnreadableVideoError(f"{path}: {error.strerror}") from error
    if os.path.isdir(path):
        raise UnreadableVideoError(f"{path}: is a folder, not a video file")
    if stat.st_size == 0:
        raise UnreadableVideoError(f"{path}: the file is empty (0 bytes)")
    with open_container(path) as container:
        chosen = _choose_stream(path, container, stream)
        if chosen.codec_context is None:
            raise UnreadableVideoError(f"{path}: can't be read as a video: no decoder is known for its video stream")
        _refuse_truncated(path, container, chosen, stat.st_size)
        stream = chosen.index
        packets = read_packets(path, container, chosen, checksums=checksums)
    with open_container(path) as container:  # anew: what a decoder did must not depend on what was demuxed before
        chosen = video_stream(container, stream)
        first = first_frame(path, container, chosen)
        context = chosen.codec_context
        fps = float(chosen.average_rate or chosen.guessed_rate or 0)
        if _is_odd(container, chosen, packets):
            first_key = int(np.argmax(packets.flags & KEY))  # 0 where there is none
            frame_packets, referring = frames_that_come_out(path, chosen, packets.count, first_key)
            if context.codec.canonical_name not in TELL_KEYFRAMES:
                packets.not_keyframes(referring)
            packets.set_frames(frame_packets, fps, chosen.time_base, trust=_trusts_pts(container, packets))
        else:
            frame_packets = packets.shown()
        if not len(frame_packets):
            raise NoVideoStreamError(f"{path}: not one frame comes out of its video stream")
        shown = packets.pts[frame_packets]
        time_base = Fraction(chosen.time_base or Fraction(1, 90000))
        durations = np.diff(shown)
        last = int(packets.duration[frame_packets[-1]]) or int(np.median(durations) if len(durations) else 0)
        if not last and fps:
            last = round(1 / fps / time_base)
        duration = float((int(shown[-1] - shown[0]) + last) * time_base)
        return Video(
            path=path,
            file_size=stat.st_size,
            mtime_ns=stat.st_mtime_ns,
            container=container.format.name,
            stream_index=stream,
            codec=context.codec.canonical_name,
            codec_tag=context.codec_tag.strip("\0") if context.codec_tag.isprintable() else "",
            pix_fmt=first.pix_fmt,
            width=first.width,
            height=first.height,
            rotation=first.rotation.degrees,
            mirrored=first.rotation.mirrored,
            # The container's, else the coded stream's, as av_guess_sample_aspect_ratio has it.
            sample_aspect_ratio=Fraction(chosen.sample_aspect_ratio or 1),
            color_range=int(context.color_range),
            color_space=int(context.colorspace),
            color_primaries=int(context.color_primaries),
            color_trc=int(context.color_trc),
            bits_per_coded_sample=context.bits_per_coded_sample,
            time_base=time_base,
            fps=len(frame_packets) / duration if duration > 0 else fps,
            constant_fps=bool(len(durations) == 0 or durations.max() - durations.min() <= 1),
            duration=duration,
            offsets_exact=packets.offsets_exact,
            header=make_header(path, chosen),
            packet_pts=packets.pts,
            packet_dts=packets.dts,
            packet_pos=packets.pos,
            packet_size=packets.size,
            packet_flags=packets.flags,
            packet_crc32=packets.crc32,
            frame_packets=frame_packets,
        )


def _choose_stream(path: str, container: InputContainer, wanted: int | None) -> VideoStream:
    videos = container.streams.video
    if wanted is not None:
        if wanted not in [stream.index for stream in videos]:
            raise NoVideoStreamError(
                f"{path}: stream {wanted} is no video stream; those are {[stream.index for stream in videos]}"
            )
        return video_stream(container, wanted)
    pictures = av.stream.Disposition.attached_pic
    films = [stream for stream in videos if not stream.disposition & pictures]
    if not films:
        raise NoVideoStreamError(f"{path}: has no video stream")
    best = container.streams.best("video")
    for stream in films:
        if best is not None and stream.index == best.index:
            return stream
    return films[0]


def _refuse_truncated(path: str, container: InputContainer, stream: VideoStream, file_size: int) -> None:
    """Refuse a file that ends before the data that its own header places in it."""
    end = 0
    if "mp4" in container.format.name:
        end = max((entry.pos + entry.size for entry in stream.index_entries), default=0)
    elif "matroska" in container.format.name:
        end = _matroska_segment_end(path)
    elif container.format.name == "avi":
        with open(path, "rb") as file:
            head = file.read(8)
        end = int.from_bytes(head[4:8], "little") + 8 if head[:4] == b"RIFF" else 0
    elif container.format.name == "gif":
        with open(path, "rb") as file:
            file.seek(-1, os.SEEK_END)
            end = file_size + (file.read(1) != b";")  # its trailer
    if end > file_size:
        raise UnreadableVideoError(
            f"{path}: cut short: its header places data up to byte {end}, but the file ends at byte {file_size}; "
            "copy or download it again"
        )


def _matroska_segment_end(path: str) -> int:
    """Byte where the Segment element ends, 0 if its size isn't stated (RFC 8794, section 6.2: all ones is unknown)."""
    with open(path, "rb") as file:
        head = file.read(4096)

    def element(at: int, id_length: int) -> tuple[int, int | None]:
        first = head[at + id_length]
        length = 9 - first.bit_length()
        value = int.from_bytes(head[at + id_length : at + id_length + length], "big") & (1 << 7 * length) - 1
        return at + id_length + length, None if value == (1 << 7 * length) - 1 else value

    try:
        at, size = element(0, 4)
        at, size = element(at + (size or 0), 4)
    except IndexError:
        return 0
    return at + size if size is not None else 0


def _trusts_pts(container: InputContainer, packets: Packets) -> bool:
    # AVI stores no presentation times; libavformat makes some up from the order of packets.
    return packets.pts_stated and container.format.name != "avi"


def _is_odd(container: InputContainer, stream: VideoStream, packets: Packets) -> bool:
    """Whether packets alone don't tell which frames come out, and in what order.

    So it is where presentation times are missing, repeat or go backward, where the film doesn't start with a keyframe
    or starts with leading pictures whose references aren't there, where fields may come in packets of their own, and
    where a codec reorders frames but times say that it doesn't.
    """
    if not _trusts_pts(container, packets) or not packets.flags[0] & KEY:
        return True
    # MXF, for one, states of H.264 when packets are decoded, and calls it pts.
    if stream.codec_context.has_b_frames and np.all(np.diff(packets.pts) > 0):
        return True
    if str(getattr(stream.codec_context, "field_order", 0)) not in ("0", "1"):
        return True
    if len(np.unique(packets.pts[packets.shown()])) < len(packets.shown()):
        return True
    keys = np.flatnonzero(packets.flags & KEY)
    key_pts = packets.pts[keys]
    if np.any(np.diff(key_pts) <= 0):
        return True
    # Every frame is shown after the keyframe before its own: only leading pictures come before their own.
    gop = np.searchsorted(keys, np.arange(packets.count), side="right") - 1
    earliest = np.concatenate([key_pts[:1], key_pts[:-1]])[gop]
    return bool(np.any((packets.pts < earliest) & (packets.flags & (DISCARD | HIDDEN) == 0)))
