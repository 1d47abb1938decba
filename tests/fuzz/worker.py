"""The process in which edited films are read: one request is a path, the answer what came of it."""

from __future__ import annotations

import json
import resource
import time
import traceback
from typing import Any

import numpy as np

from vidload.decode.film import Film
from vidload.errors import VidloadError
from vidload.index.demux import demux_video
from vidload.index.format import IndexFile
from vidload.index.processes import Answer, serve
from vidload.index.reader import VideoIndex
from vidload.index.statistics import index_totals

DECODERS = ("pyav", "decord")
_MEMORY = 6 << 30  # of addresses, which decord takes a lot of


def read(path: str) -> str:
    """Index a film and read frames of it with each decoder; "frames", or the class of the first error."""
    try:
        video = demux_video(path, checksums=False)
    except VidloadError as error:
        assert path in str(error)
        return type(error).__name__
    outcome = "frames"
    count = min(video.num_frames, 60)
    orders = [[0], [video.num_frames - 1], [video.num_frames // 2] * 2, list(range(count)), [count // 3, 0]]
    for decoder in DECODERS:
        with Film(video, decoder) as film:  # type: ignore[arg-type]
            for order in orders:
                try:
                    frames = film.frames(order, size=64 if video.width * video.height > 1 << 20 else None)
                except VidloadError as error:
                    assert path in str(error)
                    outcome = type(error).__name__
                else:
                    assert frames.dtype == np.uint8
                    assert len(frames) == len(order)
    return outcome


def open_index(path: str) -> str:
    """Open an index and look at all its videos."""
    try:
        with VideoIndex(path) as index:
            for video in index:
                video.pts()
                Film(video).close()
        file = IndexFile(path)
        index_totals(file)
        for row in range(file.batch.num_rows):
            file.facts(row)
        return "opened"
    except VidloadError as error:
        return type(error).__name__


def _answer(request: list[Any]) -> Answer:
    start = time.monotonic()
    path = request[0]
    try:
        outcome = open_index(path) if path.endswith(".index") else read(path)
    except Exception:
        outcome = "not vidload's own error:\n" + traceback.format_exc()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return b"o", json.dumps({"outcome": outcome, "seconds": time.monotonic() - start, "peak_mb": peak}).encode()


def main() -> None:
    """Answer every line of standard input, within bounds of memory."""
    import decord  # noqa: F401  its libraries' memory is not a film's doing

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    serve(_answer)
