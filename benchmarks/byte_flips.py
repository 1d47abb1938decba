"""How much damage is noticed: one byte changed at a random place in each of many films, by codec and backend.

A film's frames are read singly, around the packet that holds the byte. It is *spoilt* for a backend if a frame is
refused or isn't the one that the same backend gives of the whole film; *noticed* if no frame is given that isn't.
`checksums` is an index with checksums (any backend); `vidload check` is told nothing of the whole film, it sees the
damaged one only.

    python benchmarks/byte_flips.py
    python benchmarks/byte_flips.py --films 10 --codecs hevc vp9
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torchcodec.decoders  # noqa: F401  before decord: see vidload.decode.torchcodec
from side_by_side import report, track, write_table

from vidload.check.film import check_film
from vidload.decode.dali import DaliDecoder
from vidload.decode.encoded import encode_slice
from vidload.decode.film import Film
from vidload.decode.source import read_slice
from vidload.errors import UnreadableVideoError, VidloadError
from vidload.index.demux import demux_video
from vidload.index.video import KEY, Video
from vidload.synthetic import write_film
from vidload.transforms.geometry import NativeSize

CODECS = {
    "H.264": ("libx264", ".mp4"),
    "HEVC": ("libx265", ".mp4"),
    "MPEG-4": ("mpeg4", ".mp4"),
    "VP8": ("libvpx", ".webm"),
    "VP9": ("libvpx-vp9", ".webm"),
    "AV1": ("libsvtav1", ".mp4"),
    "MJPEG": ("mjpeg", ".avi"),
}
DALI_CODECS = ("VP8", "VP9", "MJPEG")
WAYS = ("pyav", "decord", "torchcodec", "dali", "checksums", "vidload check")
DOCS = Path(__file__).parents[1] / "docs" / "video.md"

Read = Callable[[Video, Sequence[int]], Any]


def by_film(decoder: str) -> Read:
    def read(video: Video, frames: Sequence[int]) -> Any:
        with Film(video, decoder) as film:  # type: ignore[arg-type]
            return film.frames(frames)

    return read


def by_dali() -> Read:
    decoder = DaliDecoder("cpu", threads=1)

    def read(video: Video, frames: Sequence[int]) -> Any:
        clip = encode_slice(read_slice(video, frames), NativeSize().plan(video.width, video.height, lambda: 0.5))
        decoded = decoder.decode([clip], (video.height, video.width))
        for error in decoded.errors.values():
            raise error
        return decoded.video[0].numpy()

    return read


def flip(path: Path, video: Video, draw: random.Random) -> int:
    """Change one byte of the packets; returns the packet that it is in."""
    at = draw.randrange(int(video.packet_size.sum()))
    packet = int(np.searchsorted(np.cumsum(video.packet_size), at, side="right"))
    place = int(video.packet_pos[packet]) + at - int(video.packet_size[:packet].sum())
    stat = os.stat(path)
    data = bytearray(path.read_bytes())
    data[place] ^= draw.randrange(1, 256)
    path.write_bytes(data)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return packet


def frames_near(video: Video, packet: int) -> list[int]:
    """The frames of the packet's GOP and of the next one."""
    keys = np.flatnonzero(video.packet_flags & KEY)
    gop = int(np.searchsorted(keys, packet, side="right")) - 1
    begin, end = keys[max(gop, 0)], [*keys, len(video.packet_pts), len(video.packet_pts)][gop + 2]
    return [frame for frame, number in enumerate(video.frame_packets.tolist()) if begin <= number < end]


def outcome(read: Read, video: Video, whole: dict[int, Any]) -> str:
    """noticed, unnoticed or harmless."""
    wrong = refused = False
    for frame, picture in whole.items():
        try:
            wrong = wrong or not np.array_equal(read(video, [frame])[0], picture)
        except VidloadError:
            refused = True
    return "unnoticed" if wrong else "noticed" if refused else "harmless"


def checked(path: Path) -> str:
    try:
        return "noticed" if any(finding.bad for finding in check_film(demux_video(path))) else "unnoticed"
    except UnreadableVideoError:
        return "noticed"


def measure(codec: str, films: int, folder: Path, draw: random.Random) -> dict[str, dict[str, int]]:
    encoder, suffix = CODECS[codec]
    readers = {name: by_film(name) for name in ("pyav", "decord", "torchcodec")}
    if codec in DALI_CODECS:
        readers["dali"] = by_dali()
    counts = {way: {"noticed": 0, "unnoticed": 0, "harmless": 0} for way in WAYS}
    for number in track(range(films), codec):
        path = folder / f"{encoder}_{number}{suffix}"
        write_film(path, 48, width=256, height=144, codec=encoder, gop=12, moving=True, first_number=100 * number)
        summed = demux_video(path, checksums=True)
        video = replace(summed, packet_crc32=np.empty(0, np.uint32))
        every = list(range(video.num_frames))
        whole = {name: read(video, every) for name, read in readers.items()}
        packet = flip(path, video, draw)
        near = frames_near(video, packet)
        spoilt = False
        for name, read in readers.items():
            found = outcome(read, video, {frame: whole[name][frame] for frame in near})
            counts[name][found] += 1
            spoilt = spoilt or found != "harmless"
        found = outcome(readers["pyav"], summed, {frame: whole["pyav"][frame] for frame in near})
        counts["checksums"][found] += 1
        if spoilt:
            counts["vidload check"][checked(path)] += 1
    return counts


def as_markdown(results: dict[str, dict[str, dict[str, int]]]) -> str:
    lines = [f"| | {' | '.join(WAYS)} |", "|---" * (len(WAYS) + 1) + "|"]
    for codec, counts in results.items():
        cells = []
        for way in WAYS:
            noticed, unnoticed = counts[way]["noticed"], counts[way]["unnoticed"]
            cells.append(f"{noticed} of {noticed + unnoticed}" if noticed + unnoticed else "")
        lines.append(f"| {codec} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/byte_flips"), help="folder of films")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--codecs", nargs="+", choices=CODECS, default=list(CODECS))
    parser.add_argument("--films", type=int, default=50, help="of each codec")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--docs", action="store_true", help="write the table into docs/video.md")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    draw = random.Random(args.seed)
    results = {codec: measure(codec, args.films, args.out, draw) for codec in args.codecs}
    print(as_markdown(results))
    if args.docs:
        write_table(DOCS, "flips", as_markdown(results))
    report("byte_flips", {"films": args.films, "codecs": results}, args.json)


if __name__ == "__main__":
    main()
