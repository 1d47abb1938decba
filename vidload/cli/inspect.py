"""``vidload inspect``: what a film, or an index, is like to load from."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from vidload.index.video import Video

__all__ = ["clip_cost", "command", "describe_index", "describe_video"]

CLIPS_OF_A_VIDEO = 50
"""Clips that the cost is measured on where one video is looked at."""
VIDEOS_OF_AN_INDEX = 200
CLIPS_EACH = 10
"""How many videos of an index are looked into, and how many clips of each."""
SIZES_SHOWN = 8


def command(
    path: Annotated[str, typer.Argument(metavar="FILE|INDEX", help="A video file, or an index.")],
    frames: Annotated[int, typer.Option(min=1, help="Frames of the clip whose cost is shown.")] = 16,
    stride: Annotated[int, typer.Option(min=1, help="From one frame of that clip to the next.")] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show codec, size, frame rate, keyframes and disposable packets of a video or of an index, and what a clip costs.

    The cost is the number of packets that have to be decoded for each wanted frame: 1 is the least there is.
    """
    from vidload.index.demux import demux_video
    from vidload.index.format import looks_like_index

    if looks_like_index(path):
        found = describe_index(path, frames, stride)
    else:
        found = describe_video(demux_video(path), frames, stride)
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        _print_table(found)


def clip_cost(video: Video, frames: int, stride: int, clips: int) -> tuple[float, float]:
    """Packets decoded per wanted frame, with disposable packets left out and without; the mean over clips.

    The clips are placed evenly over the video. Where it is too short for one, a clip has as many frames as fit.

    Args:
        video: The video.
        frames: Frames of a clip.
        stride: From one frame of a clip to the next.
        clips: How many clips.
    """
    import numpy as np

    from vidload.decode.slice import plan_slice

    steps = np.arange(0, min(frames * stride, video.num_frames), stride)
    last_start = video.num_frames - 1 - steps[-1]
    starts = np.unique(np.linspace(0, last_start, clips).round().astype(np.int64))
    costs = []
    for drop in (True, False):
        plans = [plan_slice(video, start + steps, drop_disposable=drop) for start in starts]
        costs.append(float(np.mean([plan.num_packets / plan.num_wanted for plan in plans])))
    return costs[0], costs[1]


def describe_video(video: Video, frames: int, stride: int) -> dict[str, Any]:
    """All that is shown of a video, as JSON has it."""
    from vidload.index.statistics import packet_statistics

    packets = packet_statistics([video])
    kept, all_of_them = clip_cost(video, frames, stride, CLIPS_OF_A_VIDEO)
    width, height = video.display_size
    return {
        "path": video.path,
        "container": video.container,
        "codec": video.codec,
        "pix_fmt": video.pix_fmt,
        "width": width,
        "height": height,
        "rotation": video.rotation,
        "mirrored": video.mirrored,
        "fps": video.fps,
        "constant_fps": video.constant_fps,
        "duration_s": video.duration,
        "frames": video.num_frames,
        "packets": len(video.packet_flags),
        "file_bytes": video.file_size,
        "offsets_exact": video.offsets_exact,
        "gop": {"min": packets.gop_shortest, "median": packets.gop_median, "max": packets.gop_longest},
        "disposable_share": packets.disposable_share,
        "clip": _clip(frames, stride, kept, all_of_them),
    }


def describe_index(path: str, frames: int, stride: int) -> dict[str, Any]:
    """All that is shown of an index, as JSON has it.

    Raises:
        IndexFormatError: If the file isn't an index.
        EmptySourceError: If the index holds no video.
    """
    import numpy as np

    from vidload.errors import EmptySourceError
    from vidload.index.format import IndexFile
    from vidload.index.reader import VideoIndex
    from vidload.index.statistics import QUANTILES, index_totals, packet_statistics

    index = VideoIndex(path)
    if not len(index):
        raise EmptySourceError(f"{index.path}: this index holds no video; build it anew with `vidload index`")
    totals = index_totals(IndexFile(index.path))
    rows = np.unique(np.linspace(0, len(index) - 1, VIDEOS_OF_AN_INDEX).astype(np.int64))
    sample = [index[row] for row in rows]
    packets = packet_statistics(sample)
    costs = np.mean([clip_cost(video, frames, stride, CLIPS_EACH) for video in sample], axis=0)
    names = [f"p{round(share * 100)}" for share in QUANTILES]
    return {
        "path": index.path,
        "videos": totals.videos,
        "frames": totals.frames,
        "packets": totals.packets,
        "hours": totals.seconds / 3600,
        "file_bytes": totals.file_bytes,
        "index_bytes": os.path.getsize(index.path),
        "classes": index.classes,
        "unlabelled": totals.unlabelled,
        "columns": index.columns,
        "codecs": dict(totals.codecs),
        "sizes": {f"{width}x{height}": count for (width, height), count in totals.sizes.items()},
        "constant_fps": totals.constant_fps,
        "offsets_exact": totals.offsets_exact,
        "fps": dict(zip(names, totals.fps, strict=True)),
        "duration_s": dict(zip(names, totals.duration, strict=True)),
        "frames_per_video": dict(zip(names, totals.num_frames, strict=True)),
        "sampled_videos": len(sample),
        "gop": {"min": packets.gop_shortest, "median": packets.gop_median, "max": packets.gop_longest},
        "disposable_share": packets.disposable_share,
        "clip": _clip(frames, stride, float(costs[0]), float(costs[1])),
    }


def _clip(frames: int, stride: int, kept: float, all_of_them: float) -> dict[str, Any]:
    return {
        "frames": frames,
        "stride": stride,
        "packets_per_frame": kept,
        "packets_per_frame_without_dropping": all_of_them,
    }


def _print_table(found: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in (_rows_of_index if "videos" in found else _rows_of_video)(found).items():
        # Text: a file may be called "[red].mp4".
        table.add_row(name, Text(value.encode("utf-8", "replace").decode()))
    Console().print(table)


def _rows_of_video(found: Mapping[str, Any]) -> dict[str, str]:
    turned = f", turned by {found['rotation']} degrees" if found["rotation"] else ""
    return {
        "file": f"{found['path']} ({found['file_bytes']:,} bytes, {found['container']})",
        "codec": f"{found['codec']}, {found['pix_fmt']}",
        "size as shown": f"{found['width']} x {found['height']}{turned}{', mirrored' if found['mirrored'] else ''}",
        "frame rate": f"{found['fps']:.6g} per second, {'constant' if found['constant_fps'] else 'variable'}",
        "duration": f"{_duration(found['duration_s'])}, {found['frames']:,} frames in {found['packets']:,} packets",
        **_rows_of_packets(found),
        "read by": "byte offset" if found["offsets_exact"] else "demuxing from the keyframe",
    }


def _rows_of_index(found: Mapping[str, Any]) -> dict[str, str]:
    videos = found["videos"]
    sizes = list(found["sizes"].items())
    rest = sum(count for _, count in sizes[SIZES_SHOWN:])
    shown = [f"{size.replace('x', ' x ')}: {count:,}" for size, count in sizes[:SIZES_SHOWN]]
    if rest:
        shown.append(f"{len(sizes) - SIZES_SHOWN:,} others: {rest:,}")
    classes = f"{len(found['classes']):,} classes with names" if found["classes"] else "no names of classes"
    return {
        "index": f"{found['path']} ({found['index_bytes']:,} bytes)",
        "videos": f"{videos:,} with {found['frames']:,} frames, {found['hours']:,.2f} hours, "
        f"{found['file_bytes']:,} bytes of film",
        "labels": f"{classes}, {found['unlabelled']:,} videos without a label",
        "columns": ", ".join(found["columns"]) or "none",
        "codecs": ", ".join(f"{codec}: {count:,}" for codec, count in found["codecs"].items()),
        "sizes as shown": ", ".join(shown),
        "frame rate": f"{_spread(found['fps'])} per second; constant in {found['constant_fps']:,} videos",
        "duration": f"{_spread(found['duration_s'])} seconds",
        "frames": _spread(found["frames_per_video"]),
        **_rows_of_packets(found),
        "read by": f"byte offset: {found['offsets_exact']:,}, demuxing: {videos - found['offsets_exact']:,}",
        "": f"GOPs, packets and the clip's cost are those of {found['sampled_videos']:,} videos, evenly chosen."
        if found["sampled_videos"] < videos
        else "",
    }


def _rows_of_packets(found: Mapping[str, Any]) -> dict[str, str]:
    gop, clip = found["gop"], found["clip"]
    return {
        "GOP length": f"{gop['min']:,} to {gop['max']:,} packets, median {gop['median']:,.6g}",
        "disposable": f"{found['disposable_share']:.1%} of packets",
        f"clip of {clip['frames']} at {clip['stride']}": f"{clip['packets_per_frame']:.2f} packets decoded per wanted "
        f"frame ({clip['packets_per_frame_without_dropping']:.2f} without dropping disposable ones)",
    }


def _spread(quantiles: Mapping[str, float]) -> str:
    low, *middle, high = quantiles.items()
    return f"{low[1]:,.6g} to {high[1]:,.6g} ({', '.join(f'{name} {value:,.6g}' for name, value in middle)})"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds, 2), 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02}:{rest:05.2f}"
