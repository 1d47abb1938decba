"""One film rewritten: the same frames at the same times, with short GOPs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from tests.films import FilmFolder, remux
from vidload import open_video
from vidload.errors import ArgumentError
from vidload.index.demux import demux_video
from vidload.index.video import KEY
from vidload.synthetic import read_number
from vidload.transcode.film import Settings, TranscodeError, is_done, transcode_film, unfinished_name


def numbers(path: Path, frames: list[int]) -> list[int]:
    with open_video(path, "pyav") as film:
        return [read_number(frame) for frame in film.frames(frames)]


def longest_gop(path: Path) -> int:
    keys = np.flatnonzero(demux_video(path).packet_flags & KEY)
    return int(np.diff([*keys, demux_video(path).num_frames]).max())


@pytest.mark.parametrize(
    "name",
    [
        "h264_bframes",
        "h264_variable",
        "h264_variable_mkv",
        "h264_open_gop",
        "h264_ts",
        "hevc",
        "vp9",
        "mpeg4_avi",
        "mjpeg_avi",
    ],
)
def test_frames_and_times_stay(name: str, film_file: FilmFolder, tmp_path: Path) -> None:
    source, target = film_file(name), tmp_path / "sub" / "made.mp4"
    transcode_film(source, target, Settings(gop=6))
    before, after = demux_video(source), demux_video(target)
    assert after.num_frames == before.num_frames
    np.testing.assert_allclose(after.pts() - after.pts()[0], before.pts() - before.pts()[0], atol=2e-3)
    frames = list(range(0, before.num_frames, 7))
    assert numbers(target, frames) == numbers(source, frames)
    assert longest_gop(target) <= 6
    assert [path.name for path in target.parent.iterdir()] == ["made.mp4"]


@pytest.mark.parametrize("codec", ["libx265", "libsvtav1", "libvpx-vp9"])
def test_codecs(codec: str, film_file: FilmFolder, tmp_path: Path) -> None:
    source, target = film_file("h264_bframes"), tmp_path / "made.mp4"
    transcode_film(source, target, Settings(codec, gop=10))
    assert demux_video(target).codec == {"libx265": "hevc", "libsvtav1": "av1", "libvpx-vp9": "vp9"}[codec]
    assert numbers(target, [0, 50, 99]) == [100, 150, 199]
    assert longest_gop(target) <= 10


@pytest.mark.parametrize(("short_side", "size"), [(64, (128, 64)), (100, (200, 100)), (500, (256, 128))])
def test_pictures_get_smaller_but_not_larger(
    short_side: int, size: tuple[int, int], film_file: FilmFolder, tmp_path: Path
) -> None:
    transcode_film(film_file("h264_bframes"), tmp_path / "made.mp4", Settings(short_side=short_side))
    made = demux_video(tmp_path / "made.mp4")
    assert (made.width, made.height) == size
    assert numbers(tmp_path / "made.mp4", [7, 70]) == [107, 170]


@pytest.mark.parametrize("rotation", [(90, False), (180, False), (270, False), (0, True), (90, True)])
def test_the_picture_is_shown_as_before(rotation: tuple[int, bool], film_file: FilmFolder, tmp_path: Path) -> None:
    source = remux(film_file("h264_bframes"), tmp_path / "turned.mp4", rotation=rotation)
    transcode_film(source, tmp_path / "made.mp4", Settings(crf=10))
    with open_video(source, "pyav") as before, open_video(tmp_path / "made.mp4", "pyav") as after:
        one, other = before.frames([5])[0].astype(int), after.frames([5])[0].astype(int)
    assert one.shape == other.shape
    assert np.abs(one - other).mean() < 6


def test_audio_is_left_out(film_file: FilmFolder, tmp_path: Path) -> None:
    source = tmp_path / "talkie.mp4"
    with av.open(str(film_file("h264_bframes"))) as film, av.open(str(source), "w") as out:
        copy, audio = out.add_stream_from_template(film.streams.video[0]), out.add_stream("aac", rate=8000)
        for packet in film.demux(film.streams.video[0]):
            if packet.size:
                packet.stream = copy
                out.mux(packet)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.rate, frame.pts = 8000, 0
        out.mux(audio.encode(frame))
        out.mux(audio.encode(None))
    transcode_film(source, tmp_path / "made.mp4", Settings())
    with av.open(str(tmp_path / "made.mp4")) as made:
        assert [stream.type for stream in made.streams] == ["video"]


def test_it_is_done_until_source_or_settings_change(film_file: FilmFolder, tmp_path: Path) -> None:
    source, target = tmp_path / "a.mp4", tmp_path / "out" / "a.mp4"
    source.write_bytes(film_file("h264_bframes").read_bytes())
    settings = Settings(gop=8)
    assert not is_done(source, target, settings)
    transcode_film(source, target, settings)
    assert is_done(source, target, settings)
    assert is_done(source, target, Settings(gop=8, threads=4))
    assert not is_done(source, target, Settings(gop=9))
    source.touch()
    assert not is_done(source, target, settings)
    target.write_bytes(target.read_bytes()[:100])
    assert not is_done(source, target, settings)


def test_a_source_is_not_overwritten(film_file: FilmFolder, tmp_path: Path) -> None:
    source = tmp_path / "a.mp4"
    source.write_bytes(film_file("h264_bframes").read_bytes())
    before = source.read_bytes()
    with pytest.raises(TranscodeError, match=r"a.mp4: it would be overwritten"):
        transcode_film(source, source, Settings())
    assert source.read_bytes() == before


@pytest.mark.parametrize("damage", ["cut", "noise", "no film"])
def test_a_broken_source_leaves_nothing(damage: str, film_file: FilmFolder, tmp_path: Path) -> None:
    source, target = tmp_path / "a.ts", tmp_path / "made.mp4"
    data = bytearray(film_file("h264_bframes").read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "noise":
        video = demux_video(film_file("h264_bframes"))
        at, size = int(video.packet_pos[30]), int(video.packet_size[30])
        data[at : at + size] = b"\xff" * size
    else:
        data = bytearray(b"hello")
    source.write_bytes(data)
    with pytest.raises(TranscodeError, match=r"a\.ts: "):
        transcode_film(source, target, Settings())
    assert not target.exists()
    assert not unfinished_name(target).exists()


def test_frames_that_got_lost_are_noticed(
    film_file: FilmFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vidload.transcode import film

    encode = film._encode

    def lose(video: Any, part: Path, *arguments: Any) -> None:
        encode(demux_video(film_file("h264_variable")), part, *arguments)

    monkeypatch.setattr(film, "_encode", lose)
    with pytest.raises(TranscodeError, match="60 frames were written of 100"):
        transcode_film(film_file("h264_bframes"), tmp_path / "made.mp4", Settings())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"codec": "divx"}, "codec='divx': there are libx264"),
        ({"gop": 0}, "gop=0"),
        ({"short_side": 3}, "short_side=3"),
    ],
)
def test_settings_that_cannot_work_are_refused(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError, match=named):
        Settings(**arguments)
