"""Checksums: a byte that changes after a film was indexed is noticed, whatever its codec."""

from __future__ import annotations

import os
import random
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backends import BACKENDS
from tests.films import FilmFolder
from vidload import build_index
from vidload.decode.film import Film
from vidload.errors import DecodeError
from vidload.index.demux import demux_video
from vidload.index.reader import VideoIndex
from vidload.index.video import DISPOSABLE, KEY, Video


def change(path: Path, video: Video, packet: int) -> None:
    """Flip a bit in the middle of a packet; size and modification time stay."""
    stat = os.stat(path)
    data = bytearray(path.read_bytes())
    data[int(video.packet_pos[packet]) + int(video.packet_size[packet]) // 2] ^= 4
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.fixture
def copied(film_file: FilmFolder, tmp_path: Path) -> Any:
    return lambda name: Path(shutil.copy(film_file(name), tmp_path))


@pytest.mark.parametrize("name", ["h264_bframes", "hevc", "vp8", "vp9", "mjpeg_avi", "h264_ts", "mpeg4_avi"])
def test_an_index_keeps_the_checksum_of_every_packet(name: str, copied: Any, tmp_path: Path) -> None:
    path = copied(name)
    with build_index(path, tmp_path / "i", checksums=True, num_workers=0) as index:
        video = index[0]
        assert video.packet_crc32.dtype == np.uint32
        assert len(video.packet_crc32) == len(video.packet_pts)
        if video.offsets_exact:
            data = path.read_bytes()
            for at, size, crc in zip(video.packet_pos, video.packet_size, video.packet_crc32, strict=True):
                assert zlib.crc32(data[at : at + size]) == crc
        assert len(Film(video).frames([3, 20])) == 2
    with build_index(path, tmp_path / "plain", num_workers=0) as index:
        assert len(index[0].packet_crc32) == 0


@pytest.mark.parametrize("decoder", BACKENDS)
@pytest.mark.parametrize("name", ["hevc", "vp9", "h264_bframes", "mjpeg_avi", "h264_ts"])
def test_every_frame_that_a_changed_packet_spoils_is_an_error(name: str, decoder: Any, copied: Any) -> None:
    path = copied(name)
    video = demux_video(path, checksums=True)
    references = np.flatnonzero(video.packet_flags & (KEY | DISPOSABLE) == 0)
    packet = random.Random(name).choice(references.tolist() or [5])
    if not video.offsets_exact:
        pytest.skip("in a transport stream a packet's bytes don't lie together")
    change(path, video, packet)
    film = Film(video, decoder)
    first = int(np.flatnonzero(video.frame_packets == packet)[0])
    with pytest.raises(DecodeError, match=rf"frame {first}: the film's bytes aren't those that were indexed"):
        film.frames([first])
    keys = np.flatnonzero(video.packet_flags & KEY)
    before = [
        frame
        for frame in range(len(film))
        if keys[np.searchsorted(keys, video.frame_packets[frame], "right") - 1] > packet
    ]
    assert len(film.frames(before[-3:])) == min(len(before), 3)  # of later GOPs


def test_an_index_is_read_anew_for_checksums(copied: Any, tmp_path: Path) -> None:
    path = copied("hevc")
    build_index(path, tmp_path / "i", num_workers=0).close()
    for _ in range(2):
        with build_index(path, tmp_path / "i", checksums=True, update=True, num_workers=0) as index:
            assert len(index[0].packet_crc32)
    with VideoIndex(tmp_path / "i") as index:
        assert len(index[0].packet_crc32) == len(index[0].packet_pts)


def test_allowed_damage_is_given(copied: Any) -> None:
    path = copied("hevc")
    video = demux_video(path, checksums=True)
    change(path, video, 5)
    frame = int(np.flatnonzero(video.frame_packets == 5)[0])
    assert Film(video, concealed="allow").frames([frame]).shape[0] == 1
