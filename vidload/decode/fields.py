"""Frames that are coded as two fields, made pictures of one moment.

``estdif`` interpolates the second field's lines from the first one's along edges. It looks at one frame alone, so a
frame comes out the same whichever clip it is in; filters that look at neighbours (yadif, bwdif) would need frames that
a clip doesn't decode.
"""

from __future__ import annotations

from av.error import FFmpegError
from av.filter import Graph
from av.video.frame import VideoFrame

__all__ = ["DEINTERLACER", "filtered"]

DEINTERLACER = ("estdif", "mode=frame:deint=all")
"""Name and arguments of the filter."""


def filtered(graph: Graph, frame: VideoFrame, fields: bool) -> VideoFrame:
    """What a graph makes of a frame.

    Args:
        graph: Gives a frame for a frame; with `DEINTERLACER` in it, a frame late.
        frame: The frame.
        fields: Whether the filter is in it.
    """
    graph.push(frame)
    if fields:  # pushed again, it drives itself out
        _drain(graph)
        graph.push(frame)
    placed = graph.pull()
    assert isinstance(placed, VideoFrame)
    return placed


def _drain(graph: Graph) -> None:
    try:
        while True:
            graph.pull()
    except (FFmpegError, BlockingIOError):
        pass
