from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.index.videos import make_video
from vidload.index.format import IndexFile, facts_of, write_index
from vidload.index.statistics import gop_lengths, index_totals, packet_statistics
from vidload.index.video import DISPOSABLE, KEY


def flags(text: str) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.array([{"K": KEY, "P": 0, "b": DISPOSABLE}[letter] for letter in text], np.uint8)


@pytest.mark.parametrize(
    ("packets", "lengths"), [("KPbKPPbKK", [3, 4, 1, 1]), ("K", [1]), ("bPKP", [2]), ("PPb", [3]), ("KPP", [3])]
)
def test_a_gop_reaches_from_one_keyframe_to_the_next(packets: str, lengths: list[int]) -> None:
    video = make_video(packets=len(packets), packet_flags=flags(packets))
    assert gop_lengths(video).tolist() == lengths


def test_packet_statistics_are_over_all_videos() -> None:
    videos = [make_video(packets=len(text), packet_flags=flags(text)) for text in ("KbbbKP", "KP")]
    found = packet_statistics(videos)
    assert (found.gop_shortest, found.gop_median, found.gop_longest) == (2, 2.0, 4)
    assert found.disposable_share == 3 / 8


def test_totals_sum_up_the_columns(tmp_path: Path) -> None:
    videos = [
        make_video(0, 5, codec="vp9", rotation=0, width=640, height=360, constant_fps=False, duration=2.0, fps=10.0),
        make_video(1, 9, codec="h264", rotation=90, width=360, height=640, duration=4.0, fps=20.0),
        make_video(2, 2, codec="h264", rotation=90, width=640, height=360, offsets_exact=False, duration=3.0, fps=30.0),
    ]
    write_index(str(tmp_path / "x"), facts_of(videos), paths=["/a", "/b", "/c"], labels=[0, -1, -1])
    totals = index_totals(IndexFile(str(tmp_path / "x")))
    assert (totals.videos, totals.packets, totals.seconds) == (3, 16, 9.0)
    assert totals.frames == sum(video.num_frames for video in videos)
    assert totals.file_bytes == sum(video.file_size for video in videos)
    assert (totals.constant_fps, totals.offsets_exact, totals.unlabelled) == (2, 2, 2)
    assert list(totals.codecs.items()) == [("h264", 2), ("vp9", 1)]
    assert list(totals.sizes.items()) == [((640, 360), 2), ((360, 640), 1)]
    assert totals.duration == (2.0, 2.0, 3.0, 4.0, 4.0)
    assert totals.fps == (10.0, 10.0, 20.0, 30.0, 30.0)
