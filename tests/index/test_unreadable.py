"""What is no film, or not a whole one, is refused by name and with its reason."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from tests.films import FilmFolder, remux
from tests.reading_cases import FOLDER
from vidload.decode.film import open_video
from vidload.errors import DecodeError, NoVideoStreamError, UnreadableVideoError
from vidload.index.demux import demux_video
from vidload.synthetic import read_number, write_film


def write_audio(path: Path, codec: str) -> Path:
    """A file with nothing but a second of silence."""
    kind = "fltp" if codec == "aac" else "s16"
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=8000, layout="mono")
        for number in range(8):
            silence = np.zeros((1, 1024), np.float32 if kind == "fltp" else np.int16)
            frame = av.AudioFrame.from_ndarray(silence, format=kind, layout="mono")
            frame.sample_rate, frame.pts = 8000, number * 1024
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


@pytest.mark.parametrize(("name", "codec"), [("sound.mp4", "aac"), ("sound.mkv", "aac")])
def test_sound_alone_is_no_film(name: str, codec: str, tmp_path: Path) -> None:
    with pytest.raises(NoVideoStreamError, match=rf"{name}: has no video stream"):
        demux_video(write_audio(tmp_path / name, codec))


@pytest.mark.parametrize("name", ["none.mp4", "none.avi", "none.mkv"])
def test_a_film_without_frames_is_refused(name: str, tmp_path: Path) -> None:
    with av.open(str(tmp_path / name), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        container.start_encoding()
    with pytest.raises(UnreadableVideoError, match=rf"{name}: \w+"):
        demux_video(tmp_path / name)


def test_a_film_of_which_nothing_decodes_is_refused(film_file: FilmFolder, tmp_path: Path) -> None:
    source = demux_video(film_file("h264_bframes"))
    noise = {number: bytes(size) for number, size in enumerate(source.packet_size.tolist())}
    path = remux(film_file("h264_bframes"), tmp_path / "noise.mp4", change=noise)
    with pytest.raises(NoVideoStreamError, match=r"noise\.mp4: not one frame"):
        demux_video(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableVideoError, match=r"gone\.mp4: No such file"):
        demux_video(tmp_path / "gone.mp4")
    with pytest.raises(UnreadableVideoError, match="is a folder, not a video file"):
        demux_video(tmp_path)
    (tmp_path / "empty.mp4").touch()
    with pytest.raises(UnreadableVideoError, match=r"empty\.mp4: the file is empty"):
        demux_video(tmp_path / "empty.mp4")


@pytest.mark.parametrize(
    "content", [b"<html><body>404 not found</body></html>" * 20, b"to do: buy milk\n", bytes(5000)]
)
@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".avi", ".txt"])
def test_what_is_no_film_is_refused(content: bytes, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"text{suffix}"
    path.write_bytes(content)
    with pytest.raises(UnreadableVideoError, match=rf"text\{suffix}: "):
        demux_video(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(film_file: FilmFolder, tmp_path: Path) -> None:
    path = remux(film_file("h264_bframes"), tmp_path / "secret.mp4")
    path.chmod(0)
    with pytest.raises(UnreadableVideoError, match=r"secret\.mp4: .*denied"):
        demux_video(path)


@pytest.fixture
def cut(film_file: FilmFolder, tmp_path: Path) -> Callable[[str, float], Path]:
    """Gives a film of which only the given share of its bytes is left."""

    def make(name: str, share: float) -> Path:
        source = film_file(name)
        path = tmp_path / f"cut{source.suffix}"
        if source.suffix in (".mp4", ".mov"):  # its header first: else nothing can be read of a file cut short
            with av.open(str(source)) as film, av.open(str(path), "w", options={"movflags": "+faststart"}) as target:
                copy = target.add_stream_from_template(film.streams.video[0])
                for packet in film.demux(video=0):
                    if packet.size:
                        packet.stream = copy
                        target.mux(packet)
            source = path
        content = source.read_bytes()
        path.write_bytes(content[: int(len(content) * share)])
        return path

    return make


@pytest.mark.parametrize("share", [0.6, 0.99])
@pytest.mark.parametrize("name", ["h264_bframes", "h264_mov", "h264_mkv", "vp9", "mpeg4_avi", "hevc_mkv"])
def test_a_film_cut_short_is_refused(name: str, share: float, cut: Callable[[str, float], Path]) -> None:
    with pytest.raises(UnreadableVideoError, match=r"cut\.\w+: cut short: its header places data up to byte \d+"):
        demux_video(cut(name, share))


def test_a_film_cut_before_its_header_is_refused(film_file: FilmFolder, tmp_path: Path) -> None:
    content = film_file("h264_bframes").read_bytes()
    path = tmp_path / "headless.mp4"
    for share in (0.02, 0.5, 0.9):
        path.write_bytes(content[: int(len(content) * share)])
        with pytest.raises(UnreadableVideoError, match=r"headless\.mp4: "):
            demux_video(path)


def test_a_stream_cut_short_is_a_shorter_film(cut: Callable[[str, float], Path]) -> None:
    """A transport stream says nowhere how long it is."""
    video = demux_video(cut("h264_ts", 0.6))
    assert 20 < video.num_frames < 60


def test_errors_are_the_builtin_ones_too(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"gone\.mp4"):
        demux_video(tmp_path / "gone.mp4")


def test_a_path_is_a_file_and_never_an_address(tmp_path: Path) -> None:
    for name in ("http://127.0.0.1:9/film.mp4", "concat:a.mp4|b.mp4", "data:video/mp4;base64,AAAA"):
        with pytest.raises(UnreadableVideoError, match="No such file"):
            demux_video(name)


def test_a_gif_without_its_end_is_refused(tmp_path: Path) -> None:
    data = (FOLDER / "anim.gif").read_bytes()
    for share in (0.4, 0.99):
        (tmp_path / "x.gif").write_bytes(data[: int(len(data) * share)])
        with pytest.raises(UnreadableVideoError, match=r"x\.gif: cut short"):
            demux_video(tmp_path / "x.gif")


@pytest.mark.parametrize("suffix", [".ivf", ".flv"])
def test_a_last_packet_that_is_cut_short_is_an_error(suffix: str, tmp_path: Path) -> None:
    """These containers don't say how long they are; libavformat marks what it could read of the last packet."""
    codec = {".ivf": "libvpx-vp9", ".flv": "libx264"}[suffix]
    path = write_film(tmp_path / f"x{suffix}", 40, codec=codec, moving=True)
    video = demux_video(path)
    end = int(video.packet_pos[20]) + int(video.packet_size[20]) // 2
    path.write_bytes(path.read_bytes()[:end])
    with open_video(path) as film:
        assert len(film) == 21
        last = int(np.flatnonzero(film.video.frame_packets == 20)[0])
        with pytest.raises(DecodeError, match=rf"frame {last}: its packet is cut short"):
            film.frames([last])
        assert [read_number(frame) for frame in film.frames(range(16))] == list(range(16))
