"""Reading the films in tests/cases/ with one backend, held against the answers in cases.json.

python -m tests.reading_cases    # writes the table in docs/video.md anew
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tests.backends  # noqa: F401  loads torchcodec, before decord: see vidload.decode.torchcodec
from tests.cases.frameid import bar_error, read_id
from vidload.decode.backends import decord_reason
from vidload.decode.dali import DaliDecoder, dali_slice_reason, dali_video_reason
from vidload.decode.encoded import encode_slice
from vidload.decode.film import Film
from vidload.decode.protocol import AnyFrames
from vidload.decode.source import read_slice
from vidload.decode.torchcodec import torchcodec_reason
from vidload.errors import DecodeError, UnreadableVideoError
from vidload.index.demux import demux_video
from vidload.index.video import Video
from vidload.transforms.geometry import NativeSize

FOLDER = Path(__file__).parent / "cases"
CASES: list[dict[str, Any]] = json.loads((FOLDER / "cases.json").read_text(encoding="utf-8"))
BACKENDS = ("pyav", "decord", "torchcodec", "dali")

# One tick of the coarsest time base among the cases, Matroska's millisecond, and the rounding of cases.json.
_TICK = 0.00101

Read = Callable[[Sequence[int]], AnyFrames]

_REASONS: dict[str, Callable[[Video], str | None]] = {
    "pyav": lambda video: None,
    "decord": decord_reason,
    "torchcodec": torchcodec_reason,
    "dali": lambda video: dali_video_reason("cpu", video),
}


class NotAskedError(Exception):
    """The backend isn't asked for this kind of film; why."""


def outcome(case: dict[str, Any], backend: str) -> str:
    """Read a case in every way there is, and check all of it.

    Returns:
        What came of it, in words for the table.

    Raises:
        AssertionError: If anything isn't as the case says.
    """
    path, expect = FOLDER / case["file"], case["expect"]
    try:
        video = demux_video(path)
    except UnreadableVideoError as error:
        assert expect["outcome"] in ("raise", "either"), error
        assert str(path) in str(error)
        return "error when indexed"
    assert expect["outcome"] != "raise"
    _check_facts(video, expect)
    reason = _REASONS[backend](video)
    if reason is not None:
        _check_refusal(video, backend, reason)
        return f"not asked: {reason}"
    read, close = _reader(video, backend)
    try:
        if expect["outcome"] == "either":
            return _check_one_by_one(read, expect)
        _check_orders(read, video, expect)
    except NotAskedError as error:
        return f"not asked: {error}"
    finally:
        close()
    return "right"


def _check_facts(video: Video, expect: dict[str, Any]) -> None:
    assert video.num_frames == expect["frame_count"]
    assert video.display_size == (expect["width"], expect["height"])
    if "rotation" in expect:
        assert video.rotation == expect["rotation"]
    if "sar" in expect:
        assert f"{video.sample_aspect_ratio.numerator}:{video.sample_aspect_ratio.denominator}" == expect["sar"]
    if expect.get("pts_unreliable") or expect["pts"][0] is None:
        return
    pts, wanted = video.pts(), np.array(expect["pts"])
    if expect.get("pts_relative"):
        pts, wanted = pts - pts[0], wanted - wanted[0]
    else:
        # Of its last frame vfr.mp4 states 0.04 s, twice what was meant: that is believed.
        assert abs(pts[0] + video.duration - expect["end"]) <= (0.0205 if "vfr" in video.path else 2 * _TICK)
    assert np.abs(pts - wanted).max() <= _TICK
    if len(np.unique(pts)) == len(pts):
        middles = np.concatenate([(pts[:-1] + pts[1:]) / 2, pts[-1:]]) + (video.pts()[0] - pts[0])
        assert video.frames_at(middles).tolist() == list(range(video.num_frames))


def _check_refusal(video: Video, backend: str, reason: str) -> None:
    if backend == "dali":  # the loader decides; see tests/loader/test_dali.py
        return
    try:
        Film(video, backend).frames([0])  # type: ignore[arg-type]
    except DecodeError as error:
        assert reason in str(error)
        assert video.path in str(error)
    else:
        raise AssertionError(f"{backend} wasn't refused")


def _reader(video: Video, backend: str) -> tuple[Read, Callable[[], None]]:
    if backend != "dali":
        film = Film(video, backend)  # type: ignore[arg-type]
        return film.frames, film.close
    decoder = DaliDecoder("cpu", threads=1)
    width, height = video.display_size

    def read(frames: Sequence[int]) -> AnyFrames:
        piece = read_slice(video, frames)
        reason = dali_slice_reason("cpu", piece)
        if reason is not None:
            raise NotAskedError(reason)
        clip = encode_slice(piece, NativeSize().plan(width, height, lambda: 0.5))
        decoded = decoder.decode([clip], (height, width))
        for error in decoded.errors.values():
            raise error
        return decoded.video[0].numpy()

    return read, decoder.close


def _check_orders(read: Read, video: Video, expect: dict[str, Any]) -> None:
    ids, count = expect["ids"], expect["frame_count"]
    first_line = slice(None, None, 2 if expect["fields"] else 1)  # woven, a picture holds two numbers

    def number_in(frame: AnyFrames) -> int:
        return read_id(frame[first_line])

    draw = random.Random(count)
    steps = range(0, count, max(1, count // 300))
    orders = [
        list(steps),
        list(steps)[::-1],
        [draw.randrange(count) for _ in range(24)],
        [max(count - 2, 0), count - 1],
        [0, 0, count // 2, count // 2],
    ]
    for order in orders:
        assert [number_in(frame) for frame in read(order)] == [ids[number] for number in order]
    for number in sorted({0, count // 2, count - 1, *(draw.randrange(count) for _ in range(8))}):
        frame = read([number])[0]
        assert number_in(frame) == ids[number]
        assert frame.shape == (expect["height"], expect["width"], 3)
        if expect["bars"] is not None:
            assert bar_error(frame) <= expect["bars"]
        if expect["fields"]:
            assert read_id(frame[1::2]) == ids[number] + 1
    times = video.pts()
    by_time = [draw.randrange(count) for _ in range(8)]
    shown = video.frames_at(times[by_time])
    assert [number_in(frame) for frame in read(shown)] == [ids[number] for number in shown]
    assert np.array_equal(times[shown], times[by_time])


def _check_one_by_one(read: Read, expect: dict[str, Any]) -> str:
    """Each frame is right, or an error; those that aren't damaged are right, but where the picture's size changes."""
    refused = []
    for number, wanted in enumerate(expect["ids"]):
        try:
            frame = read([number])[0]
        except DecodeError as error:
            assert f"frame {number}:" in str(error)
            refused.append(number)
            continue
        assert read_id(frame) == wanted, number
    changed = range(expect["sizes"][1][0], expect["frame_count"]) if "sizes" in expect else ()
    assert set(refused) <= {*expect["damaged"], *changed}
    if not refused:
        return "right"
    return f"right but for {len(refused)} of the frames {refused[0]} to {refused[-1]}: an error"


DOCS = Path(__file__).parents[1] / "docs" / "video.md"
BEGIN, END = "<!-- cases: begin -->", "<!-- cases: end -->"


def table(outcomes: dict[tuple[str, str], str]) -> str:
    """The table in docs/video.md, of all cases and backends."""
    lines = ["| film | what is odd about it | " + " | ".join(BACKENDS) + " |", "|---" * (2 + len(BACKENDS)) + "|"]
    for case in CASES:
        cells = [case["name"], case["property"], *(outcomes[case["name"], backend] for backend in BACKENDS)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def documented() -> dict[tuple[str, str], str]:
    """What docs/video.md says of each case and backend."""
    text = DOCS.read_text(encoding="utf-8")
    rows = text[text.index(BEGIN) : text.index(END)].splitlines()[3:]
    found = {}
    for row in rows:
        cells = [cell.strip() for cell in row.strip("| ").split(" | ")]
        found |= {(cells[0], backend): cell for backend, cell in zip(BACKENDS, cells[2:], strict=True)}
    return found


def main() -> None:
    """Read all, and write the table."""
    outcomes = {(case["name"], backend): outcome(case, backend) for case in CASES for backend in BACKENDS}
    text = DOCS.read_text(encoding="utf-8")
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    DOCS.write_text(f"{text[:begin]}\n{table(outcomes)}\n{text[end:]}", encoding="utf-8")
    print(f"{len(outcomes)} outcomes written to {os.path.relpath(DOCS)}", file=sys.stderr)


if __name__ == "__main__":
    main()
