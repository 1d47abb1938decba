"""What demuxing finds in a film is what is in it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from tests.films import FILMS, FILMS_BY_NAME, Film, FilmFolder, remux
from vidload.decode.film import open_video
from vidload.errors import NoVideoStreamError
from vidload.index.demux import demux_video
from vidload.index.packets import NO_TIMESTAMP
from vidload.index.video import DISCARD, DISPOSABLE, HIDDEN, KEY
from vidload.synthetic import read_number, write_film

each_film = pytest.mark.parametrize("film", FILMS, ids=str)
CONTAINERS = {".mp4": "mov", ".mov": "mov", ".mkv": "matroska", ".webm": "matroska", ".avi": "avi", ".ts": "mpegts"}


def numbers(path: Path, decoder: str = "auto") -> list[int]:
    """The number in each frame, each decoded by itself."""
    with open_video(path, decoder) as film:  # type: ignore[arg-type]
        return [read_number(film.frames([number])[0]) for number in range(len(film))]


@each_film
def test_facts_are_those_of_the_film(film: Film, film_file: FilmFolder) -> None:
    path = film_file(film)
    video = demux_video(path)
    assert video.path == str(path)
    assert video.file_size == path.stat().st_size
    assert video.mtime_ns == path.stat().st_mtime_ns
    assert CONTAINERS[film.suffix] in video.container
    assert video.codec == film.codec
    assert (video.width, video.height) == video.display_size == (film.width, film.height)
    assert (video.rotation, video.mirrored, video.stream_index) == (0, False, 0)
    assert video.sample_aspect_ratio == 1
    assert video.pix_fmt == ("yuvj420p" if film.codec == "mjpeg" else "yuv420p")
    assert video.num_frames == film.num_frames
    assert (video.label, video.extra, video.id) == (-1, {}, 0)


@each_film
def test_times_are_those_written(film: Film, film_file: FilmFolder) -> None:
    video = demux_video(film_file(film))
    pts = video.pts()
    assert np.abs(pts - pts[0] - film.pts).max() <= float(video.time_base) / 2 + 1e-9
    assert video.constant_fps == (film.pts_ms is None)
    last = 0.04 if film.pts_ms is None else video.duration - film.pts[-1]
    assert last > 0
    assert video.duration == pytest.approx(film.pts[-1] + last, abs=0.0015)
    assert video.fps == pytest.approx(film.num_frames / video.duration)


@each_film
def test_packets_are_those_of_libavformat(film: Film, film_file: FilmFolder) -> None:
    video = demux_video(film_file(film))
    with av.open(str(film_file(film))) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    assert video.packet_size.tolist() == [packet.size for packet in packets]
    assert (video.packet_flags & KEY != 0).tolist() == [packet.is_keyframe for packet in packets]
    if film.suffix != ".avi":  # which states no times
        assert video.packet_pts.tolist() == [packet.pts for packet in packets]
        assert video.packet_dts.tolist() == [NO_TIMESTAMP if packet.dts is None else packet.dts for packet in packets]
        assert video.time_base == packets[0].time_base
    for array, dtype in (
        (video.packet_pts, np.int64),
        (video.packet_dts, np.int64),
        (video.packet_pos, np.int64),
        (video.packet_size, np.int32),
        (video.packet_flags, np.uint8),
        (video.frame_packets, np.int32),
    ):
        assert array.dtype == dtype


@each_film
def test_frames_come_out_of_the_packets_said(film: Film, film_file: FilmFolder) -> None:
    video = demux_video(film_file(film))
    assert sorted(video.frame_packets.tolist()) == list(range(film.num_frames))
    with av.open(str(film_file(film))) as container:
        context = container.streams.video[0].codec_context
        order = []
        for number, packet in enumerate(packet for packet in container.demux(video=0) if packet.size):
            packet.pts = packet.dts = number
            order += [frame.pts for frame in context.decode(packet)]
        order += [frame.pts for frame in context.decode(None)]
    assert video.frame_packets.tolist() == order


@pytest.mark.parametrize(
    ("name", "keys", "disposables"),
    [
        ("h264_bframes", 9, 33),
        ("h264_one_gop", 1, 100),
        ("h264_intra", 60, 0),
        ("hevc", 5, 20),
        ("hevc_open_gop", 5, 20),
        ("mpeg4", 6, 39),
        ("mpeg2_ts", 6, 39),
        ("mjpeg_avi", 60, 0),
        ("vp9", 5, 0),
    ],
)
def test_keyframes_and_disposable_packets_are_told(
    name: str, keys: int, disposables: int, film_file: FilmFolder
) -> None:
    flags = demux_video(film_file(name)).packet_flags
    assert np.count_nonzero(flags & KEY) == keys
    assert np.count_nonzero(flags & DISPOSABLE) == disposables
    assert not np.any((flags & KEY != 0) & (flags & DISPOSABLE != 0))
    assert not np.any(flags & (DISCARD | HIDDEN))


def test_a_variable_rate_is_kept(film_file: FilmFolder) -> None:
    for name in ("h264_variable", "h264_variable_mkv"):
        video = demux_video(film_file(name))
        assert not video.constant_fps
        assert np.round(np.diff(video.pts()) * 1000).astype(int).tolist()[:6] == [20, 40, 40, 100, 10, 20]


def test_rates_that_milliseconds_round_are_constant(tmp_path: Path) -> None:
    """30 frames per second in Matroska are 0, 33, 67, 100, ... ms."""
    video = demux_video(write_film(tmp_path / "film.mkv", 31, width=64, height=64, fps=30))
    assert video.constant_fps
    assert video.fps == pytest.approx(30, abs=0.05)
    assert video.pts()[[1, 2, 30]].tolist() == [0.033, 0.067, 1.0]


def test_fractional_rates_are_exact_in_mp4(tmp_path: Path) -> None:
    video = demux_video(write_film(tmp_path / "film.mp4", 30, width=64, height=64, fps=Fraction(30000, 1001)))
    assert video.fps == pytest.approx(30000 / 1001)
    assert video.pts()[29] == pytest.approx(29 * 1001 / 30000, abs=1e-6)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
@pytest.mark.parametrize("suffix", [".mp4", ".mkv"])
def test_rotation_is_told(degrees: int, mirrored: bool, suffix: str, film_file: FilmFolder, tmp_path: Path) -> None:
    """PyAV turns counterclockwise and mirrors afterwards: the same as mirroring first and turning clockwise."""
    path = remux(film_file("h264_bframes"), tmp_path / f"turned{suffix}", rotation=(degrees, mirrored))
    video = demux_video(path)
    assert (video.rotation, video.mirrored) == (degrees if mirrored else -degrees % 360, mirrored)
    assert (video.width, video.height) == (256, 128)
    assert video.display_size == ((128, 256) if degrees in (90, 270) else (256, 128))


def test_avi_is_ordered_by_what_comes_out_of_the_decoder(film_file: FilmFolder) -> None:
    """AVI has no presentation times; by those that libavformat makes up, B-frames come out of order."""
    path = film_file("h264_avi")
    with av.open(str(path)) as container:
        pts = [packet.pts for packet in container.demux(video=0) if packet.size]
    video = demux_video(path)
    assert None in pts or video.frame_packets.tolist() != np.argsort(pts).tolist()
    for name in ("h264_avi", "mpeg4_avi", "mpeg4_moving", "mjpeg_avi"):
        assert np.allclose(demux_video(film_file(name)).pts(), np.arange(60) / 25)
        assert numbers(film_file(name)) == FILMS_BY_NAME[name].numbers


def test_repeated_times_keep_their_frames_in_order(tmp_path: Path) -> None:
    """3000 frames per second don't fit into Matroska's milliseconds: three frames share each."""
    path = write_film(tmp_path / "film.mkv", 30, width=128, height=64, fps=3000)
    video = demux_video(path)
    assert len(np.unique(video.pts())) < 15
    assert np.all(np.diff(video.pts()) >= 0)
    for decoder in ("pyav", "decord"):
        assert numbers(path, decoder) == list(range(30))
        with open_video(path, decoder) as film:  # type: ignore[arg-type]
            assert [read_number(frame) for frame in film.frames([20, 5, 6, 7, 13])] == [20, 5, 6, 7, 13]


def test_interlaced_coding_is_a_frame_per_packet(tmp_path: Path) -> None:
    options = {"x264-params": "keyint=12:threads=1:tff=1", "flags": "+ildct+ilme"}
    path = write_film(tmp_path / "film.mp4", 25, width=128, height=64, options=options)
    assert demux_video(path).num_frames == 25
    assert numbers(path) == list(range(25))


def test_frames_hidden_by_an_edit_list_are_no_frames_but_are_decoded(film_file: FilmFolder, tmp_path: Path) -> None:
    """As ``ffmpeg -ss 0.6 -c copy`` trims; decord, opened on such a film, gives wrong frames or never returns."""
    path = tmp_path / "trimmed.mp4"
    options = {"avoid_negative_ts": "disabled"}
    with av.open(str(film_file("h264_bframes"))) as source, av.open(str(path), "w", options=options) as target:
        stream = source.streams.video[0]
        copy = target.add_stream_from_template(stream)
        begin = Fraction(15, 25) / stream.time_base
        for packet in source.demux(stream):
            if packet.size:
                packet.pts, packet.dts, packet.stream = packet.pts - int(begin), packet.dts - int(begin), copy
                target.mux(packet)
    video = demux_video(path)
    assert video.num_frames == 85
    assert np.any(video.packet_flags & DISCARD)
    assert video.pts()[0] == 0
    for decoder in ("pyav", "decord"):
        assert numbers(path, decoder) == list(range(115, 200))


@pytest.mark.parametrize(
    "name", ["h264_bframes", "h264_open_gop", "hevc_open_gop", "vp9", "h264_ts", "mpeg4", "mpeg4_avi", "mpeg2_ts"]
)
def test_a_film_that_starts_without_a_keyframe_begins_with_its_first_one(
    name: str, film_file: FilmFolder, tmp_path: Path
) -> None:
    source = film_file(name)
    path = remux(source, tmp_path / source.name, drop=[0])
    video = demux_video(path)
    assert np.all(video.packet_flags[:9] & (HIDDEN | DISCARD))  # decoded, but nothing comes out of them
    film = FILMS_BY_NAME[name]
    read = numbers(path)
    assert read == film.numbers[-len(read) :]
    assert read[0] <= film.first_number + 13  # leading pictures of the first keyframe can't be decoded either
    assert np.all(np.diff(video.pts()) > 0)


def test_a_cover_picture_is_not_the_film(film_file: FilmFolder, tmp_path: Path) -> None:
    path = tmp_path / "covered.mp4"
    with (
        av.open(str(film_file("h264_bframes"))) as film,
        av.open(str(film_file("mjpeg_avi"))) as pictures,
        av.open(str(path), "w") as target,
    ):
        cover = target.add_stream_from_template(pictures.streams.video[0])
        cover.disposition = av.stream.Disposition.attached_pic
        copy = target.add_stream_from_template(film.streams.video[0])
        picture = next(pictures.demux(video=0))
        picture.stream = cover
        target.mux(picture)
        for packet in film.demux(video=0):
            if packet.size:
                packet.stream = copy
                target.mux(packet)
    video = demux_video(path)
    assert (video.codec, video.num_frames) == ("h264", 100)
    assert numbers(path)[:3] == [100, 101, 102]


@pytest.fixture
def two_films(film_file: FilmFolder, tmp_path: Path) -> Path:
    """A file of two video streams: h264_bframes (256 x 128), then hevc (128 x 64)."""
    path = tmp_path / "two.mp4"
    with av.open(str(path), "w") as target:
        sources = [av.open(str(film_file(name))) for name in ("h264_bframes", "hevc")]
        copies = [target.add_stream_from_template(source.streams.video[0]) for source in sources]
        for source, copy in zip(sources, copies, strict=True):
            for packet in source.demux(video=0):
                if packet.size:
                    packet.stream = copy
                    target.mux(packet)
            source.close()
    return path


def test_of_several_streams_one_can_be_chosen(two_films: Path) -> None:
    assert (demux_video(two_films).codec, demux_video(two_films).stream_index) == ("h264", 0)
    second = demux_video(two_films, stream=1)
    assert (second.codec, second.stream_index, second.num_frames, second.width) == ("hevc", 1, 60, 128)


def test_a_stream_that_does_not_exist_is_refused(two_films: Path) -> None:
    with pytest.raises(NoVideoStreamError, match=r"two\.mp4: stream 2 is no video stream; those are \[0, 1\]"):
        demux_video(two_films, stream=2)
