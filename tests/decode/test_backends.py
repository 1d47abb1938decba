"""Both backends give the frames asked for, from every kind of film, in any order, whatever was decoded before.

Which frame it is, is read from the pixels; that they are the right pixels, by comparing with PyAV decoding the whole
film from start to end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.backends import BACKENDS, NEEDS_TORCHCODEC
from tests.films import FILMS, Film, FilmFolder, remux
from vidload.decode import pyav as pyav_module
from vidload.decode.backends import Backends, check_decoder, decord_reason
from vidload.decode.protocol import Frames
from vidload.decode.slice import plan_slice
from vidload.errors import ArgumentError, DecodeError
from vidload.index.demux import demux_video
from vidload.index.header import open_header
from vidload.index.video import DISPOSABLE, HIDDEN, Video
from vidload.synthetic import read_number
from vidload.transforms.geometry import Placement, RandomResizedCrop, make_geometry

VideoOf = Callable[[Film | str], Video]
Linear = Callable[[Film | str], Frames]

UNCHECKED_BY_DECORD = {"ffv1", "mpeg2video"}
CASES = [
    pytest.param(film, decoder, id=f"{film}-{decoder}", marks=[NEEDS_TORCHCODEC] if decoder == "torchcodec" else [])
    for film in FILMS
    for decoder in ("pyav", "decord", "torchcodec")
    if decoder != "decord" or film.codec not in UNCHECKED_BY_DECORD
]
each_film_and_decoder = pytest.mark.parametrize(("film", "decoder"), CASES)

TOLERANCE = 2
"""Levels by which pixels may differ between backends where no crop comes before scaling; see docs/decoders.md."""


def decode(
    backends: Backends,
    video: Video,
    frames: Sequence[int],
    placement: Placement | None = None,
    *,
    drop_disposable: bool = True,
) -> Frames:
    placement = placement or make_geometry(None).plan(*video.display_size, lambda: 0.5)
    out = np.full((len(frames), placement.window[3], placement.window[2], 3), 77, np.uint8)
    backends.decode(video, frames, placement, out, drop_disposable=drop_disposable)
    return out


def difference(left: Frames, right: Frames) -> int:
    assert left.shape == right.shape
    return int(np.abs(left.astype(np.int16) - right).max())


def choices(film: Film) -> dict[str, list[int]]:
    """Ways to ask for frames of a film."""
    end = film.num_frames
    return {
        "first": [0],
        "last": [end - 1],
        "around a keyframe": [11, 12, 13],
        "strided": list(range(5, end, 4))[:16],
        "sparse": np.linspace(0, end - 1, 8).astype(int).tolist(),
        "backwards": list(range(end - 1, -1, -7)),
        "repeats": [7, 7, 3, 7, end - 1, 3],
        "neighbours turned around": [i ^ 1 for i in range(20, 36)],
        "all": list(range(end)),
    }


@each_film_and_decoder
def test_the_frames_asked_for_come_out_in_the_order_asked(film: Film, decoder: str, video_of: VideoOf) -> None:
    video, backends = video_of(film), Backends(decoder)
    assert video.num_frames == film.num_frames
    for how, frames in choices(film).items():
        numbers = [read_number(frame) for frame in decode(backends, video, frames)]
        assert numbers == [film.numbers[i] for i in frames], how


@each_film_and_decoder
def test_every_frame_can_be_had_by_itself(film: Film, decoder: str, video_of: VideoOf) -> None:
    video, backends = video_of(film), Backends(decoder)
    frames = range(0, film.num_frames, 1 if film.num_frames <= 60 else 7)
    assert [read_number(decode(backends, video, [i])[0]) for i in frames] == [film.numbers[i] for i in frames]


@each_film_and_decoder
@pytest.mark.parametrize("size", [(32, 64), 40, (54, 96)], ids=str)
def test_scaled_frames_are_the_ones_asked_for(
    film: Film, decoder: str, size: int | tuple[int, int], video_of: VideoOf
) -> None:
    video, frames = video_of(film), list(range(2, film.num_frames, 9))
    placement = make_geometry(size).plan(*video.display_size, lambda: 0.5)
    scaled = decode(Backends(decoder), video, frames, placement)
    assert scaled.shape[1:3] == (size if isinstance(size, tuple) else (size, size))
    assert [read_number(frame) for frame in scaled] == [film.numbers[i] for i in frames]


@each_film_and_decoder
def test_pixels_are_those_of_a_plain_decode(film: Film, decoder: str, video_of: VideoOf, linear: Linear) -> None:
    frames = list(range(film.num_frames))
    assert difference(decode(Backends(decoder), video_of(film), frames), linear(film)) <= TOLERANCE


@each_film_and_decoder
def test_dropping_disposable_packets_changes_no_pixel(film: Film, decoder: str, video_of: VideoOf) -> None:
    video, backends = video_of(film), Backends(decoder)
    strided = list(range(3, film.num_frames, 4))[:16]
    for frames in (strided, [film.num_frames - 2], [1, 29, 58]):
        dropped = decode(backends, video, frames)
        assert np.array_equal(dropped, decode(backends, video, frames, drop_disposable=False))
    fewer = plan_slice(video, strided).num_packets < plan_slice(video, strided, drop_disposable=False).num_packets
    assert fewer == bool(np.any(video.packet_flags & DISPOSABLE))


@pytest.mark.parametrize("decoder", BACKENDS)
def test_random_frames_in_random_films_by_one_decoder(decoder: str, video_of: VideoOf, linear: Linear) -> None:
    """360 sets of frames, films and directions in time mixed: what came before must not matter."""
    draw = random.Random(2)
    films = [film for film in FILMS if decoder == "pyav" or film.codec not in UNCHECKED_BY_DECORD]
    backends = Backends(decoder)
    for turn in range(360):
        film = draw.choice(films)
        step, start = draw.choice([-9, -4, -1, 1, 2, 4, 13]), draw.randrange(film.num_frames)
        clip = [i for i in range(start, start + 8 * step, step) if 0 <= i < film.num_frames]
        frames = clip if turn % 2 else [draw.randrange(film.num_frames) for _ in range(draw.choice([1, 2, 5, 8]))]
        got = decode(backends, video_of(film), frames, drop_disposable=draw.random() < 0.7)
        assert [read_number(frame) for frame in got] == [film.numbers[i] for i in frames], (film.name, frames)
        assert difference(got, linear(film)[frames]) <= TOLERANCE, (film.name, frames)


@pytest.mark.parametrize("name", ["mpeg4", "mpeg4_avi", "mpeg4_moving", "mpeg2_ts", "mjpeg_avi", "av1"])
def test_a_decoder_that_went_back_in_time_gives_the_same_pixels(name: str, video_of: VideoOf, linear: Linear) -> None:
    backends, video = Backends("pyav"), video_of(name)
    for frames in ([58, 59], [3, 4], [40], [20, 41], [0, 2]):
        assert difference(decode(backends, video, frames), linear(name)[frames]) <= TOLERANCE


@pytest.mark.parametrize(
    ("name", "contexts"), [("h264_bframes", 1), ("hevc", 1), ("vp9", 1), ("mpeg4", 4), ("mpeg2_ts", 4), ("ffv1_mkv", 4)]
)
def test_pyav_keeps_a_codec_context_only_where_a_flush_makes_it_forget(
    name: str, contexts: int, video_of: VideoOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MPEG-4's decoder keeps times over a flush: reused, it once gave frames of the clip before."""
    opened = []
    monkeypatch.setattr(pyav_module, "open_header", lambda header: opened.append(header) or open_header(header))
    backends, video = Backends("pyav"), video_of(name)
    for frames in ([50], [1, 30], [14]):  # the second takes two runs, each a context of its own or a flush
        decode(backends, video, frames)
    assert len(opened) == contexts


@pytest.mark.parametrize("film", [film for film in FILMS if film.codec not in UNCHECKED_BY_DECORD], ids=str)
@pytest.mark.parametrize("size", [(80, 128), (100, 130), 64], ids=str)
def test_both_backends_scale_alike(film: Film, size: int | tuple[int, int], video_of: VideoOf) -> None:
    video, frames = video_of(film), [0, 25, 50]
    placement = make_geometry(size).plan(*video.display_size, lambda: 0.5)
    pyav, decord = (decode(Backends(decoder), video, frames, placement) for decoder in ("pyav", "decord"))
    assert difference(pyav, decord) <= TOLERANCE


def test_real_footage_is_scaled_alike(footage: list[Path]) -> None:
    for path in footage:
        video = demux_video(path)
        placement = make_geometry(112).plan(*video.display_size, lambda: 0.5)
        pyav, decord = (decode(Backends(decoder), video, [3, 100], placement) for decoder in ("pyav", "decord"))
        assert difference(pyav, decord) <= TOLERANCE


def test_backends_differ_little_where_a_crop_is_scaled(footage: list[Path], film_file: FilmFolder) -> None:
    """decord can't crop, so the crop is cut from its RGB picture, where PyAV cuts it from the coded one."""
    draw = random.Random(4)
    for path in [*footage, film_file("h264_moving")]:
        video = demux_video(path)
        for _ in range(3):
            placement = RandomResizedCrop(112).plan(*video.display_size, draw.random)
            pyav, decord = (decode(Backends(decoder), video, [1, 50], placement) for decoder in ("pyav", "decord"))
            levels = np.abs(pyav.astype(np.int16) - decord)
            assert levels.mean() <= 3
            assert np.percentile(levels, 99.9) <= 32


@pytest.mark.parametrize("decoder", BACKENDS)
@pytest.mark.parametrize("flip", [False, True])
def test_a_crop_is_cut_where_it_is_asked_for(decoder: str, flip: bool, video_of: VideoOf, linear: Linear) -> None:
    video, frames = video_of("h264_moving"), [0, 30]
    for x, y, width, height in ((0, 0, 256, 100), (36, 20, 100, 60), (156, 84, 100, 60), (37, 21, 101, 61)):
        placement = Placement((x, y, width, height), (width, height), (10, 5, width - 20, height - 10), flip)
        got = decode(Backends(decoder), video, frames, placement)
        wanted = linear("h264_moving")[frames][:, y + 5 : y + height - 5, x + 10 : x + width - 10]
        assert np.abs(got.astype(np.int16) - (wanted[:, :, ::-1] if flip else wanted)).mean() < 3


@pytest.mark.parametrize("decoder", BACKENDS)
def test_odd_columns_are_kept_when_rows_are_cut(decoder: str, video_of: VideoOf, linear: Linear) -> None:
    """libavfilter's crop rounds an odd place or length down to whole chroma pixels unless told not to."""
    video = video_of("h264_moving")
    placement = Placement((1, 3, 255, 101), (255, 101), (0, 0, 255, 101))
    got = decode(Backends(decoder), video, [7], placement)
    luma = np.array([0.299, 0.587, 0.114])  # chroma may be off by half a pixel
    assert np.abs((got - linear("h264_moving")[[7], 3:104, 1:256].astype(float)) @ luma).mean() < 2


@pytest.mark.parametrize("width", [1, 2, 16, 24, 32, 36, 48, 50, 64, 72, 96, 97, 112, 144, 192])
def test_decord_gives_any_width(width: int, video_of: VideoOf) -> None:
    video = video_of("h264_bframes")
    placement = Placement((0, 0, 256, 128), (width, 64), (0, 0, width, 64))
    pyav, decord = (decode(Backends(decoder), video, [0, 50], placement) for decoder in ("pyav", "decord"))
    assert np.abs(pyav.astype(np.int16) - decord).mean() < 8


def test_auto_is_pyav_and_decord_by_name_is_decord(video_of: VideoOf) -> None:
    for film in FILMS:
        assert Backends("auto").choose(video_of(film)).name == "pyav", film.name
        if film.codec not in UNCHECKED_BY_DECORD:
            assert Backends("decord").choose(video_of(film)).name == "decord", film.name


def test_decord_is_refused_where_it_is_not_checked(video_of: VideoOf) -> None:
    for name, codec in (("mpeg2_ts", "mpeg2video"), ("ffv1_mkv", "ffv1")):
        assert codec in str(decord_reason(video_of(name)))
        assert Backends("auto").choose(video_of(name)).name == "pyav"
        with pytest.raises(DecodeError, match=rf"{name}.*{codec}.*decoder='pyav' or 'auto'"):
            Backends("decord").choose(video_of(name))


def test_decord_is_refused_where_packets_are_hidden(film_file: FilmFolder, tmp_path: Path) -> None:
    shown = demux_video(film_file("vp8"))
    data = film_file("vp8").read_bytes()[shown.packet_pos[30] :][: shown.packet_size[30]]
    # show_frame is bit 4 of a VP8 packet: this one then is an alternate reference frame.
    video = demux_video(
        remux(film_file("vp8"), tmp_path / "hidden.webm", change={30: bytes([data[0] & ~16]) + data[1:]})
    )
    assert np.flatnonzero(video.packet_flags & HIDDEN).tolist() == [30]
    assert Backends("auto").choose(video).name == "pyav"
    numbers = [100 + i for i in range(60) if i != 30]
    assert [read_number(frame) for frame in decode(Backends("auto"), video, range(59))] == numbers
    assert [read_number(decode(Backends("auto"), video, [i])[0]) for i in (28, 29, 30, 31, 58)] == [
        numbers[i] for i in (28, 29, 30, 31, 58)
    ]
    with pytest.raises(DecodeError, match="no frame comes out"):
        Backends("decord").choose(video)


def test_decord_is_refused_on_films_too_narrow_for_it(tmp_path: Path) -> None:
    film = Film("narrow", ".mp4", width=96, height=64, num_frames=13)
    video = demux_video(film.write(tmp_path))
    assert Backends("auto").choose(video).name == "pyav"
    assert [read_number(frame) for frame in decode(Backends("auto"), video, [12, 5])] == [112, 105]
    with pytest.raises(DecodeError, match="96 pixels wide"):
        Backends("decord").choose(video)


@pytest.mark.parametrize("decoder", BACKENDS)
def test_films_of_one_size_and_other_colours_share_a_decoder(decoder: str, tmp_path: Path) -> None:
    """Scalers are kept by size and format: each frame still is converted by its own matrix."""
    videos = []
    for matrix in ("bt709", "smpte170m"):
        params = f"keyint=12:scenecut=0:threads=1:colormatrix={matrix}"
        film = Film(matrix, ".mp4", num_frames=3, arguments={"moving": True, "options": {"x264-params": params}})
        videos.append(demux_video(film.write(tmp_path)))
    alone = [decode(Backends(decoder), video, [1]) for video in videos]
    assert difference(*alone) > TOLERANCE
    shared = Backends(decoder)
    for number in (0, 1, 0, 1):
        assert np.array_equal(decode(shared, videos[number], [1]), alone[number])


def test_a_decoder_that_does_not_exist_is_refused() -> None:
    for decoder in ("opencv", "", "PyAV"):
        with pytest.raises(ArgumentError, match="'auto', 'decord', 'pyav'"):
            check_decoder(decoder)
        with pytest.raises(ArgumentError, match="'auto', 'decord', 'pyav'"):
            Backends(decoder)


@pytest.mark.parametrize("decoder", BACKENDS)
def test_times_of_reading_and_decoding_follow_each_other(decoder: str, video_of: VideoOf) -> None:
    video = video_of("h264_bframes")
    out = np.empty((1, 128, 256, 3), np.uint8)
    times = Backends(decoder).decode(video, [0], make_geometry(None).plan(256, 128, lambda: 0.5), out)
    assert times.started <= times.read <= times.decoded


def test_closed_backends_open_again(video_of: VideoOf) -> None:
    backends = Backends("auto")
    for _ in range(2):
        assert read_number(decode(backends, video_of("hevc"), [30])[0]) == 130
        backends.close()
