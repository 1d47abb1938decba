"""The bytes of a slice are the packets' own, however they are read, and only of the file that was indexed."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from tests.films import FILMS, Film, FilmFolder
from vidload.decode import source as source_module
from vidload.decode.source import read_slice
from vidload.errors import ArgumentError, StaleIndexError
from vidload.index.demux import demux_video
from vidload.index.video import Video

VideoOf = Callable[[Film | str], Video]

each_film = pytest.mark.parametrize("film", FILMS, ids=str)


def demux(path: str) -> list[bytes]:
    with av.open(path) as container:
        return [bytes(packet) for packet in container.demux(video=0) if packet.size]


@each_film
def test_offsets_are_exact_in_every_container_but_transport_streams(film: Film, video_of: VideoOf) -> None:
    assert video_of(film).offsets_exact == (film.suffix != ".ts")


@each_film
@pytest.mark.parametrize("drop", [True, False], ids=["dropping", "keeping"])
def test_packets_read_are_packets_demuxed(film: Film, drop: bool, video_of: VideoOf) -> None:
    video = video_of(film)
    demuxed = demux(video.path)
    for frames in ([0], [40, 3, 17], [film.num_frames - 1], [1, 30, 59], list(range(film.num_frames))):
        piece = read_slice(video, frames, drop_disposable=drop)
        assert piece.frames.tolist() == frames
        assert [len(data) for data in piece.data] == [len(run) for run in piece.plan.runs]
        assert [data for _, data in piece.packets()] == [demuxed[number] for number, _ in piece.packets()]


@each_film
def test_packets_are_the_same_demuxed_and_by_offset(film: Film, film_file: FilmFolder) -> None:
    video = demux_video(film_file(film))
    stated = dataclasses.replace(video, offsets_exact=False)
    if film.suffix in (".mp4", ".mov", ".ts"):  # elsewhere an exact offset is that of the payload, not the block
        assert read_slice(stated, [50, 20]).data == read_slice(video, [50, 20]).data


@pytest.fixture
def from_start(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """First packets of the runs that were demuxed from the film's start."""
    runs: list[int] = []
    original = source_module._from_start
    monkeypatch.setattr(
        source_module, "_from_start", lambda video, run: runs.append(int(run[0])) or original(video, run)
    )
    return runs


@pytest.mark.parametrize("name", ["h264_ts", "mpeg2_ts"])
def test_transport_streams_are_demuxed_from_the_keyframe(name: str, video_of: VideoOf, from_start: list[int]) -> None:
    video = video_of(name)
    for frames in ([58], [1, 30], [20]):
        read_slice(video, frames)
    assert not from_start


def test_a_film_that_cannot_be_entered_is_demuxed_from_its_start(
    video_of: VideoOf, from_start: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    video = video_of("h264_ts")
    demuxed = demux(video.path)
    monkeypatch.setattr(source_module, "_from_offset", lambda video, container, run: None)
    piece = read_slice(video, [1, 30])
    assert [data for _, data in piece.packets()] == [demuxed[number] for number, _ in piece.packets()]
    assert from_start == [0, 24]


def test_a_bare_stream_is_read_wherever_it_begins(video_of: VideoOf, tmp_path: Path) -> None:
    path = tmp_path / "bare.h264"
    with av.open(video_of("h264_ts").path) as film, av.open(str(path), "w") as bare:
        stream = bare.add_stream_from_template(film.streams.video[0])
        for packet in film.demux(video=0):
            if packet.size:
                packet.stream = stream
                bare.mux(packet)
    video = demux_video(path)
    assert video.num_frames == 60
    demuxed = demux(str(path))
    piece = read_slice(video, [1, 30, 59])
    assert [data for _, data in piece.packets()] == [demuxed[number] for number, _ in piece.packets()]


def test_neighbouring_packets_are_read_at_once(video_of: VideoOf, monkeypatch: pytest.MonkeyPatch) -> None:
    video = video_of("h264_moving")
    reads: list[int] = []
    pread = os.pread
    monkeypatch.setattr(source_module.os, "pread", lambda *args: reads.append(args[1]) or pread(*args))
    piece = read_slice(video, list(range(3, 40, 4)))
    assert piece.plan.num_packets > 10
    assert len(reads) == len(piece.plan.runs)


@pytest.fixture(params=["h264_bframes", "h264_mkv", "h264_ts"])
def own_film(request: pytest.FixtureRequest, film_file: FilmFolder, tmp_path: Path) -> Path:
    """A copy of a film, to be changed."""
    source = film_file(request.param)
    return Path(shutil.copy2(source, tmp_path / f"own{source.suffix}"))


def test_a_film_that_is_gone_is_named(own_film: Path) -> None:
    video = demux_video(own_film)
    own_film.unlink()
    with pytest.raises(StaleIndexError, match=rf"{own_film.name}: No such file.*vidload index --update"):
        read_slice(video, [0])


def test_a_film_of_another_size_is_named(own_film: Path) -> None:
    video = demux_video(own_film)
    with own_film.open("ab") as file:
        file.write(b"more")
    with pytest.raises(StaleIndexError, match=rf"{own_film.name}: changed.*vidload index --update"):
        read_slice(video, [0])


def test_a_film_cut_short_is_named(own_film: Path) -> None:
    video = demux_video(own_film)
    os.truncate(own_film, own_film.stat().st_size // 2)
    with pytest.raises(StaleIndexError, match=own_film.name):
        read_slice(video, [0])


def test_a_film_written_again_is_named(own_film: Path) -> None:
    video = demux_video(own_film)
    stat = own_film.stat()
    os.utime(own_film, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    with pytest.raises(StaleIndexError, match=rf"{own_film.name}.*modification time"):
        read_slice(video, [0])


def test_another_film_that_passes_for_the_one_indexed_is_noticed(video_of: VideoOf, film_file: FilmFolder) -> None:
    """Same size and time, but shorter than its packets say, or with packets elsewhere."""
    video = video_of("h264_bframes")
    beyond = dataclasses.replace(video, packet_pos=video.packet_pos + video.file_size)
    with pytest.raises(StaleIndexError, match=r"h264_bframes.*ends before byte"):
        read_slice(beyond, [0])
    stream = video_of("h264_ts")
    elsewhere = dataclasses.replace(stream, packet_size=stream.packet_size + 1)
    with pytest.raises(StaleIndexError, match=r"h264_ts.*its packets aren't where they were"):
        read_slice(elsewhere, [30])


def test_frames_outside_the_film_are_refused_before_it_is_opened(video_of: VideoOf) -> None:
    gone = dataclasses.replace(video_of("h264_bframes"), path="/nowhere/gone.mp4")
    with pytest.raises(ArgumentError, match=r"gone\.mp4: frame 100 is outside"):
        read_slice(gone, [100])


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files by Linux's /proc")
@pytest.mark.parametrize("name", ["h264_bframes", "h264_ts"])
def test_no_file_stays_open(name: str, video_of: VideoOf) -> None:
    video = video_of(name)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        read_slice(video, [3, 50])
        with pytest.raises(StaleIndexError):
            read_slice(dataclasses.replace(video, file_size=1), [3])
    assert len(os.listdir("/proc/self/fd")) == before
    assert np.array_equal(read_slice(video, [3]).frames, [3])
