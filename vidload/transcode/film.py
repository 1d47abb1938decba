"""One film, decoded and encoded again."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.error import FFmpegError
from av.video.frame import PictureType, VideoFrame

from vidload.errors import ArgumentError, VidloadError
from vidload.index.demux import demux_video
from vidload.index.opening import open_container
from vidload.index.video import Video
from vidload.synthetic import kept_scheduling

__all__ = ["CODECS", "Settings", "TranscodeError", "is_done", "transcode_film", "unfinished_name"]

CODECS = {"libx264": 20, "libx265": 22, "libsvtav1": 30, "libvpx-vp9": 30}
"""Encoders, and the CRF that each takes by default: hardly to be told from the source, at the size given."""

_FASTER: dict[str, dict[str, str]] = {
    "libx264": {"preset": "fast"},
    "libx265": {"preset": "fast", "x265-params": "log-level=error:open-gop=0"},
    "libsvtav1": {"preset": "8"},
    "libvpx-vp9": {"deadline": "good", "cpu-used": "4", "row-mt": "1", "b": "0"},
}

_UNFINISHED = ".part"


class TranscodeError(VidloadError):
    """A film couldn't be rewritten."""


@dataclass(frozen=True)
class Settings:
    """How films are written.

    Attributes:
        codec: One of `CODECS`.
        gop: Frames from one keyframe to the next, at most.
        crf: Quality: smaller is better and larger; None for the codec's default here.
        short_side: Length of the picture's short side in pixels, where it is longer in the source; None to keep it.
        threads: Threads for each film.
    """

    codec: str = "libx264"
    gop: int = 12
    crf: int | None = None
    short_side: int | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        if self.codec not in CODECS:
            raise ArgumentError(f"codec={self.codec!r}: there are {', '.join(CODECS)}")
        for name, least in (("gop", 1), ("crf", 0), ("short_side", 16), ("threads", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ArgumentError(f"{name}={value}: give at least {least}")


def is_done(source: Path, target: Path, settings: Settings) -> bool:
    """Whether a film was written from this source, as it is now, with these settings."""
    try:
        with av.open(str(target)) as container:
            noted = json.loads(container.metadata.get("comment", "null"))
        return bool(noted == _note(source, settings))
    except (OSError, FFmpegError, ValueError):
        return False


def transcode_film(source: Path, target: Path, settings: Settings) -> None:
    """Write a film again: as many frames, at the same times, turned for showing as the source is; without audio.

    It is written beside the target and renamed when it is whole, and has as many frames at the same times.

    Raises:
        TranscodeError: If the source can't be decoded whole, or what was written isn't the same film.
    """
    if target.exists() and os.path.samefile(source, target):
        raise TranscodeError(f"{source}: it would be overwritten; write into another folder")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = unfinished_name(target)
    note = json.dumps(_note(source, settings))
    try:
        video = demux_video(source)
        with kept_scheduling():
            _encode(video, part, settings, note)
        _compare(video, demux_video(part))
        os.replace(part, target)
    except (FFmpegError, OSError) as error:
        raise TranscodeError(f"{source}: {error.strerror or error}") from error
    except TranscodeError:
        raise
    except VidloadError as error:
        raise TranscodeError(str(error)) from error
    finally:
        part.unlink(missing_ok=True)


def unfinished_name(target: Path) -> Path:
    """Where a film is written until it is whole."""
    return target.with_name(target.name + _UNFINISHED)


def _note(source: Path, settings: Settings) -> dict[str, Any]:
    stat = source.stat()
    # The number of threads changes bytes, not what they are.
    wanted = asdict(replace(settings, threads=1))
    return {"vidload": 1, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns, **wanted}


def _encode(video: Video, part: Path, settings: Settings, note: str) -> None:
    width, height = _size(video, settings.short_side)
    with (
        open_container(video.path) as container,
        av.open(str(part), "w", format="mp4", options={"movflags": "+faststart+use_metadata_tags"}) as out,
    ):
        out.metadata["comment"] = note
        stream = container.streams[video.stream_index]
        assert isinstance(stream, av.VideoStream)
        stream.codec_context.thread_count = settings.threads
        options = {
            **_FASTER[settings.codec],
            "crf": str(CODECS[settings.codec] if settings.crf is None else settings.crf),
        }
        made = out.add_stream(settings.codec, rate=Fraction(max(video.fps, 1)).limit_denominator(1001), options=options)
        assert isinstance(made, av.VideoStream)
        context = made.codec_context
        context.width, context.height, context.pix_fmt = width, height, "yuv420p"
        context.gop_size, context.thread_count = settings.gop, settings.threads
        context.time_base = made.time_base = stream.time_base or Fraction(1, 90000)
        if video.rotation or video.mirrored:
            # Counterclockwise, and mirrored last; the index has it clockwise, and mirrored first.
            turn = video.rotation if video.mirrored else -video.rotation % 360
            made.set_display_rotation(turn, hflip=bool(video.mirrored))
        first: int | None = None
        last = -1
        for number, frame in enumerate(container.decode(stream)):
            if frame.is_corrupt:
                raise TranscodeError(f"{video.path}: frame {number} is damaged")
            if frame.pts is None:
                raise TranscodeError(f"{video.path}: frame {number} has no time")
            first = frame.pts if first is None else first
            pts = frame.pts - first
            if pts <= last:
                raise TranscodeError(f"{video.path}: the time of frame {number} isn't after the one before it")
            last = pts
            out.mux(made.encode(_prepared(frame, width, height, pts, context.time_base)))
        out.mux(made.encode(None))


def _prepared(frame: VideoFrame, width: int, height: int, pts: int, time_base: Fraction) -> VideoFrame:
    picture = frame.reformat(width, height, "yuv420p", interpolation="BICUBIC")
    picture.pts, picture.time_base = pts, time_base
    picture.pict_type = PictureType.NONE  # keyframes are where the encoder sets them
    return picture


def _size(video: Video, short_side: int | None) -> tuple[int, int]:
    """(width, height) as coded: even, and no larger than the source."""
    width, height = video.width, video.height
    scale = 1.0 if short_side is None else min(1.0, short_side / min(width, height))
    return max(2, round(width * scale / 2) * 2), max(2, round(height * scale / 2) * 2)


def _compare(source: Video, made: Video) -> None:
    if made.num_frames != source.num_frames:
        raise TranscodeError(f"{source.path}: {made.num_frames} frames were written of {source.num_frames}")
    times, wanted = made.pts(), source.pts()
    off = np.abs((times - times[0]) - (wanted - wanted[0]))
    if off.max() > 0.002:
        frame = int(off.argmax())
        raise TranscodeError(f"{source.path}: the time of frame {frame} came out {off.max():.3f} s off")
