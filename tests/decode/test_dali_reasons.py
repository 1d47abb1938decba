"""What DALI is not given: streams, films and slices that it can't decode, or would get wrong."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.films import FilmFolder
from vidload.decode.dali import dali_reason, dali_slice_reason, dali_video_reason
from vidload.decode.repeats import count_pictures, shows_again
from vidload.decode.source import read_slice
from vidload.index.demux import demux_video
from vidload.index.video import HIDDEN


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("cpu", "vp9", "yuv420p", 64, 64), None),
        (("cpu", "h264", "yuv420p", 640, 360), "h264"),
        (("mps", "h264", "yuv420p", 640, 360), "mps"),
        (("cuda", "h264", "yuv420p", 640, 360), None),
        (("cuda", "h264", "yuvj420p", 640, 360), None),
        (("cuda", "av1", "yuv420p", 640, 360), None),
        (("cuda", "hevc", "yuv420p", 128, 64), "144×144"),
        (("cuda", "h264", "yuv444p", 640, 360), "yuv444p"),
        (("cuda", "hevc", "yuv420p10le", 640, 360), "yuv420p10le"),
        (("cuda", "h264", "yuv420p", 641, 360), "even"),
        (("cuda", "mjpeg", "yuvj420p", 640, 360), "mjpeg"),
        (("cuda", "mpeg4", "yuv420p", 640, 360), "mpeg4"),
    ],
)
def test_what_cannot_be_decoded_has_a_reason(arguments: tuple[Any, ...], reason: str | None) -> None:
    given = dali_reason(*arguments)
    assert given is None if reason is None else reason in str(given)


def test_films_that_dali_would_get_wrong_have_a_reason(dali_films: dict[str, Path]) -> None:
    video = demux_video(dali_films["vp9"])
    hidden = video.packet_flags.copy()
    hidden[3] |= HIDDEN
    assert "no frame comes out" in str(dali_video_reason("cpu", dataclasses.replace(video, packet_flags=hidden)))
    assert "full range" in str(dali_video_reason("cpu", dataclasses.replace(video, color_range=2)))
    assert "AVColorSpace 8" in str(dali_video_reason("cuda", dataclasses.replace(video, color_space=8)))


def test_packets_that_only_show_again_are_told_apart(film_file: FilmFolder, dali_films: dict[str, Path]) -> None:
    # A temporal unit of AV1 that only shows again is 5 bytes at most: delimiter, header, and a flag with a number.
    video = demux_video(film_file("av1"))
    piece = read_slice(video, range(video.num_frames))
    small = [len(packet) <= 5 for _, packet in piece.packets()]
    assert any(small)
    assert [shows_again("av1", packet) for _, packet in piece.packets()] == small
    assert "show an earlier picture" in str(dali_slice_reason("cuda", piece))
    assert dali_slice_reason("cpu", piece) is None
    vp9 = read_slice(demux_video(dali_films["vp9"]), [0, 30])
    assert dali_slice_reason("cuda", vp9) is None
    again = bytes([0b10001000])  # profile 0, show_existing_frame; in profile 3 one bit later
    assert shows_again("vp9", again)
    assert shows_again("vp9", bytes([0b10110100]))
    assert not shows_again("vp9", bytes([0b10110000]))
    shown = b"\x80" * 5
    index_of_two = bytes([0b11000001, 5, 1, 0b11000001])
    assert shows_again("vp9", shown + again + index_of_two)
    assert not shows_again("vp9", shown + b"\x80" + index_of_two)
    assert not shows_again("h264", again)


def test_packets_with_pictures_that_are_not_shown_are_told_apart(film_file: FilmFolder) -> None:
    # SVT-AV1's second temporal unit holds the pictures that its small group refers to, and the one that is shown.
    video = demux_video(film_file("av1"))
    piece = read_slice(video, [1])
    counts = [count_pictures("av1", packet) for _, packet in piece.packets()]
    assert counts[0] == 1
    assert max(counts) > 1
    assert not any(shows_again("av1", packet) for _, packet in piece.packets())
    assert "aren't shown" in str(dali_slice_reason("cuda", piece))
    assert dali_slice_reason("cpu", piece) is None
    assert dali_slice_reason("cuda", read_slice(video, [0])) is None
    hidden, shown, again = b"\x84" * 5, b"\x86" * 5, b"\x88"
    index_of_two = bytes([0b11000001, 5, 5, 0b11000001])
    assert count_pictures("vp9", hidden + shown + index_of_two) == 2
    assert count_pictures("vp9", shown) == 1
    assert count_pictures("vp9", again) == 0
    assert count_pictures("h264", hidden) == 1


def test_h264_that_starts_at_no_idr_picture_is_told_apart(film_file: FilmFolder) -> None:
    closed, opened = (demux_video(film_file(name)) for name in ("h264_bframes", "h264_open_gop"))
    last = opened.num_frames - 1
    assert dali_slice_reason("cuda", read_slice(closed, [0, closed.num_frames - 1])) is None
    assert dali_slice_reason("cuda", read_slice(opened, [0, 1])) is None
    assert "no IDR picture" in str(dali_slice_reason("cuda", read_slice(opened, [last])))
    assert "no IDR picture" in str(dali_slice_reason("cuda", read_slice(opened, [0, last])))


def test_reasons_import_neither_dali_nor_torch(run_python: Callable[[str], str]) -> None:
    code = (
        "import sys\n"
        "from vidload.decode.dali import dali_reason\n"
        "assert dali_reason('cpu', 'vp9', 'yuv420p', 64, 64) is None\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('torch', 'nvidia')])\n"
    )
    assert run_python(code) == "[]"


@pytest.fixture
def run_python() -> Callable[[str], str]:
    def run(code: str) -> str:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip()

    return run
