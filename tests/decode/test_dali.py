"""DALI's backend on the CPU, where it decodes VP8, VP9 and MJPEG: the whole way that a GPU's clips go, too."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import vidload
from tests.films import Film, FilmFolder, remux
from vidload import ClipDataset, RandomClips, RandomResizedCrop, SparseFrames, VideoLoader
from vidload.decode.backends import Backends
from vidload.decode.dali import DaliDecoder, dali_reason, dali_slice_reason, dali_video_reason
from vidload.decode.encoded import EncodedClip, encode_slice
from vidload.decode.protocol import Frames
from vidload.decode.repeats import shows_again
from vidload.decode.source import read_slice
from vidload.errors import ArgumentError, DecodeError
from vidload.index.demux import demux_video
from vidload.index.video import HIDDEN, Video
from vidload.synthetic import read_number
from vidload.transforms.geometry import CenterCrop, NativeSize, Placement, Resize

INSTALLED = importlib.util.find_spec("nvidia") is not None and importlib.util.find_spec("nvidia.dali") is not None

needs_dali = pytest.mark.skipif(
    not INSTALLED and os.environ.get("VIDLOAD_REQUIRE_DALI") != "1",
    reason="DALI isn't installed: pip install 'vidload[dali]'",
)

FILMS = [
    Film("vp8", ".webm", "vp8", "libvpx", width=256, height=128),
    Film("vp9", ".webm", "vp9", "libvpx-vp9", width=256, height=128),
    Film("vp9_mp4", ".mp4", "vp9", "libvpx-vp9", width=256, height=128, arguments={"moving": True}),
    Film("mjpeg", ".avi", "mjpeg", "mjpeg", width=256, height=128),
]
MEAN_DIFFERENCE = 2.5
"""Levels of 255 by which pixels may differ from PyAV's on average; see docs/dali.md."""


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("dali")
    return {film.name: film.write(folder) for film in FILMS}


@pytest.fixture(scope="module")
def decoder() -> Iterator[DaliDecoder]:
    made = DaliDecoder("cpu", threads=2)
    yield made
    made.close()


def encoded(video: Video, frames: Sequence[int], placement: Placement | None = None) -> EncodedClip:
    placement = placement or NativeSize().plan(*video.display_size, lambda: 0.5)
    return encode_slice(read_slice(video, frames), placement)


def numbers(clip: torch.Tensor) -> list[int]:
    return [read_number(frame.numpy()) for frame in clip]


def by_pyav(video: Video, frames: Sequence[int], placement: Placement) -> Frames:
    out = np.empty((len(frames), placement.window[3], placement.window[2], 3), np.uint8)
    Backends("pyav").decode(video, frames, placement, out)
    return out


def difference(one: torch.Tensor, other: npt.NDArray[np.uint8]) -> float:
    return float(np.abs(one.numpy().astype(int) - other).mean())


def damaged(clip: EncodedClip) -> EncodedClip:
    """The clip with the second half of each file overwritten."""
    parts = []
    for part in clip.parts:
        data = part.data.copy()
        data[len(data) // 2 :] = 255
        parts.append(dataclasses.replace(part, data=data))
    return dataclasses.replace(clip, parts=tuple(parts))


@needs_dali
@pytest.mark.parametrize("film", FILMS, ids=str)
def test_random_access_gives_the_frames_asked_for(film: Film, paths: dict[str, Path], decoder: DaliDecoder) -> None:
    video = demux_video(paths[film.name])
    assert dali_video_reason("cpu", video) is None
    rng = np.random.default_rng(0)
    for count in (1, 3, 8):
        wanted = rng.integers(0, film.num_frames, (4, count))  # in any order, with repeats
        wanted[0].sort()
        decoded = decoder.decode([encoded(video, frames) for frames in wanted], (128, 256))
        assert not decoded.errors
        assert decoded.video.dtype == torch.uint8
        assert [numbers(clip) for clip in decoded.video] == (wanted + film.first_number).tolist()


@needs_dali
def test_codecs_and_films_of_several_sizes_go_together(
    paths: dict[str, Path], film_file: FilmFolder, decoder: DaliDecoder
) -> None:
    videos = [demux_video(path) for path in (*paths.values(), film_file("vp9"))]
    assert len({(video.width, video.height) for video in videos}) == 2
    clips = [encoded(video, [3, 20, 41], Resize((64, 128)).plan(*video.display_size, lambda: 0.5)) for video in videos]
    decoded = decoder.decode(clips, (64, 128))
    assert [numbers(clip) for clip in decoded.video] == [[103, 120, 141]] * len(videos)


@needs_dali
@pytest.mark.parametrize(
    "turn", [(0, False), (90, False), (180, False), (270, False), (0, True), (90, True), (180, True)]
)
def test_pixels_lie_where_pyav_puts_them(
    turn: tuple[int, bool], paths: dict[str, Path], decoder: DaliDecoder, tmp_path: Path
) -> None:
    video = demux_video(remux(paths["vp9_mp4"], tmp_path / "turned.mp4", rotation=turn))
    uniform = np.random.default_rng(1).random
    geometries = (RandomResizedCrop((64, 96), flip=0.5), CenterCrop((64, 96), 100, flip=0.5), Resize((64, 96)))
    placements = [geometry.plan(*video.display_size, uniform) for geometry in geometries for _ in range(4)]
    assert {placement.flip for placement in placements} == {False, True}
    frames = [0, 7, 7, 30]
    for first in range(0, len(placements), 4):
        some = placements[first : first + 4]
        decoded = decoder.decode([encoded(video, frames, placement) for placement in some], (64, 96))
        for clip, placement in zip(decoded.video, some, strict=True):
            assert difference(clip, by_pyav(video, frames, placement)) < MEAN_DIFFERENCE


@needs_dali
@pytest.mark.parametrize("space", [1, 5, 9])
def test_the_matrix_of_the_stream_is_used(space: int, paths: dict[str, Path], decoder: DaliDecoder) -> None:
    # Colours that no matrix leaves as they are; what PyAV makes of them with that matrix is the reference.
    folder = paths["vp9"].parent
    path = folder / f"colours{space}.mp4"
    write_colours(path, space)
    video = demux_video(path)
    assert video.color_space == space
    placement = NativeSize().plan(*video.display_size, lambda: 0.5)
    decoded = decoder.decode([encoded(video, [0, 2], placement)], (64, 64))
    assert difference(decoded.video[0], by_pyav(video, [0, 2], placement)) < 1


def write_colours(path: Path, space: int) -> None:
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("libvpx-vp9", rate=25)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        stream.codec_context.colorspace = space
        stream.codec_context.color_range = 1
        for _ in range(3):
            frame = av.VideoFrame(64, 64, "yuv420p")
            for plane, level in zip(frame.planes, (120, 90, 170), strict=True):
                plane.update(bytes([level]) * plane.buffer_size)
            frame.colorspace, frame.color_range = space, 1
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


@needs_dali
def test_what_needs_nothing_more_is_the_memory_of_dali(paths: dict[str, Path], decoder: DaliDecoder) -> None:
    video = demux_video(paths["vp9"])
    decoded = decoder.decode([encoded(video, [1, 2, 5]) for _ in range(3)], (128, 256))
    assert decoded.video.is_contiguous()
    assert not decoded.video.untyped_storage().resizable()  # as torch's own would be


@needs_dali
def test_a_file_that_cannot_be_decoded_costs_its_clip(paths: dict[str, Path], decoder: DaliDecoder) -> None:
    video = demux_video(paths["vp9"])
    clips = [encoded(video, [first, first + 2, 50]) for first in (0, 10, 20, 30)]
    for place in (1, 3):
        clips[place] = damaged(clips[place])
    for _ in range(2):  # it goes on, call after call
        decoded = decoder.decode(clips, (128, 256))
        assert [numbers(clip) for clip in decoded.video] == [[100, 102, 150], [120, 122, 150]]
        assert list(decoded.errors) == [1, 3]
        error = decoded.errors[1]
        assert isinstance(error, DecodeError)
        for part in (video.path, "frames 10, 12, 50", "decoder dali"):
            assert part in str(error)
    assert not decoder.decode(clips[::2], (128, 256)).errors


@needs_dali
def test_all_clips_may_fail(paths: dict[str, Path], decoder: DaliDecoder) -> None:
    video = demux_video(paths["mjpeg"])
    decoded = decoder.decode([damaged(encoded(video, [3, 40]))], (128, 256))
    assert decoded.video.shape == (0, 2, 128, 256, 3)
    assert list(decoded.errors) == [0]


@needs_dali
def test_frames_beyond_the_end_or_of_another_size_are_errors(paths: dict[str, Path], decoder: DaliDecoder) -> None:
    clip = encoded(demux_video(paths["vp9"]), [1, 2])
    beyond = dataclasses.replace(clip.parts[0], frames=np.array([0, 70]))
    wrong = [dataclasses.replace(clip, parts=(beyond,)), dataclasses.replace(clip, width=254)]
    decoded = decoder.decode([*wrong, clip], (128, 256))
    assert list(decoded.errors) == [0, 1]
    assert "out-of-bounds" in str(decoded.errors[0])
    assert "not (2, 128, 254, 3)" in str(decoded.errors[1])
    assert numbers(decoded.video[0]) == [101, 102]


@needs_dali
def test_a_clip_may_be_several_files(paths: dict[str, Path], decoder: DaliDecoder) -> None:
    video = demux_video(paths["vp9"])
    first, second = encoded(video, [9, 9, 4]), encoded(video, [50, 52])
    parts = tuple(
        dataclasses.replace(clip.parts[0], rows=np.array(rows)) for clip, rows in ((first, [4, 1, 2]), (second, [0, 3]))
    )
    clip = dataclasses.replace(first, numbers=np.array([50, 9, 4, 52, 9]), parts=parts)
    tail = dataclasses.replace(parts[1], rows=np.array([3, 4]), frames=parts[1].frames)
    other = dataclasses.replace(clip, parts=(dataclasses.replace(parts[0], rows=np.array([0, 1, 2])), tail))
    decoded = decoder.decode([clip, damaged(clip), other], (128, 256))
    assert [numbers(clip) for clip in decoded.video] == [[150, 109, 104, 152, 109], [109, 109, 104, 150, 152]]
    assert list(decoded.errors) == [1]


@needs_dali
def test_more_than_fits_at_once_is_decoded_in_parts(
    paths: dict[str, Path], decoder: DaliDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vidload.decode.dali._MAX_BYTES", 5 * 256 * 128 * 3)
    video = demux_video(paths["vp9"])
    clips = [encoded(video, [first, first + 1]) for first in range(7)]
    clips[4] = damaged(clips[4])
    decoded = decoder.decode(clips, (128, 256))
    assert [numbers(clip)[0] for clip in decoded.video] == [100, 101, 102, 103, 105, 106]
    assert list(decoded.errors) == [4]


@needs_dali
def test_a_closed_decoder_says_so(paths: dict[str, Path]) -> None:
    decoder = DaliDecoder("cpu")
    decoder.close()
    decoder.close()
    with pytest.raises(ArgumentError, match="closed"):
        decoder.decode([encoded(demux_video(paths["vp9"]), [0])], (128, 256))


def test_without_dali_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvidia.dali.experimental.dynamic", None)
    with pytest.raises(ArgumentError, match=r"pip install 'vidload\[dali\]'"):
        DaliDecoder("cpu")


def test_devices_that_dali_has_not_are_refused() -> None:
    with pytest.raises(ArgumentError, match="meta"):
        DaliDecoder("meta")


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


def test_films_that_dali_would_get_wrong_have_a_reason(paths: dict[str, Path]) -> None:
    video = demux_video(paths["vp9"])
    hidden = video.packet_flags.copy()
    hidden[3] |= HIDDEN
    assert "no frame comes out" in str(dali_video_reason("cpu", dataclasses.replace(video, packet_flags=hidden)))
    assert "full range" in str(dali_video_reason("cpu", dataclasses.replace(video, color_range=2)))
    assert "AVColorSpace 8" in str(dali_video_reason("cuda", dataclasses.replace(video, color_space=8)))


def test_packets_that_only_show_again_are_told_apart(film_file: FilmFolder, paths: dict[str, Path]) -> None:
    # A temporal unit of AV1 that only shows again is 5 bytes at most: delimiter, header, and a flag with a number.
    video = demux_video(film_file("av1"))
    piece = read_slice(video, range(video.num_frames))
    small = [len(packet) <= 5 for _, packet in piece.packets()]
    assert any(small)
    assert [shows_again("av1", packet) for _, packet in piece.packets()] == small
    assert "show an earlier picture" in str(dali_slice_reason("cuda", piece))
    assert dali_slice_reason("cpu", piece) is None
    vp9 = read_slice(demux_video(paths["vp9"]), [0, 30])
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


def index(folder: Path, *films: Path) -> Path:
    path = folder / "films.index"
    vidload.build_index(list(films), path, num_workers=0).close()
    return path


def batches(dataset: ClipDataset, **options: Any) -> list[Any]:
    with VideoLoader(dataset, 4, shuffle=True, seed=3, **options) as loader:
        return [batch for _ in range(2) for batch in loader]


def check_numbers(batch: Any) -> None:
    for clip, frames in zip(batch.video.permute(0, 2, 3, 4, 1), batch.frames.tolist(), strict=True):
        assert numbers(clip) == [100 + frame for frame in frames]


KINDS: Any = pytest.mark.parametrize(
    "workers", [{"num_workers": 0}, {"num_workers": 2}, {"num_workers": 2, "worker_kind": "thread"}], ids=str
)


@needs_dali
@KINDS
def test_a_loader_gives_right_frames_over_epochs(
    workers: dict[str, Any], paths: dict[str, Path], tmp_path: Path
) -> None:
    films = index(tmp_path, *paths.values())
    dataset = ClipDataset(films, RandomClips(4, stride=3, clips_per_video=4), (96, 160), "dali", fallback=False)
    seen = 0
    for batch in batches(dataset, **workers):
        check_numbers(batch)
        seen += len(batch.video)
    assert seen == 2 * 16


@needs_dali
def test_clips_are_those_of_the_other_backends(paths: dict[str, Path], tmp_path: Path) -> None:
    films = index(tmp_path, *paths.values())
    sampler = SparseFrames(6, jitter=True)
    dali, pyav = (
        batches(ClipDataset(films, sampler, RandomResizedCrop((96, 160)), name), num_workers=2)
        for name in ("dali", "pyav")
    )
    for one, other in zip(dali, pyav, strict=True):
        assert torch.equal(one.frames, other.frames)
        assert torch.equal(one.video_id, other.video_id)
        assert difference(one.video, other.video.numpy()) < MEAN_DIFFERENCE


@needs_dali
def test_a_loader_goes_on_from_its_state(paths: dict[str, Path], tmp_path: Path) -> None:
    dataset = ClipDataset(index(tmp_path, *paths.values()), RandomClips(4, clips_per_video=4), (96, 160), "dali")
    with VideoLoader(dataset, 4, shuffle=True, seed=5, num_workers=2) as loader:
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        rest = list(iterator)
    with VideoLoader(dataset, 4, shuffle=True, seed=5) as loader:
        loader.load_state_dict(state)
        again = list(loader)
    assert len(again) == 3
    for one, other in zip(rest, again, strict=True):
        assert torch.equal(one.frames, other.frames)
        assert torch.equal(one.video, other.video)


@needs_dali
@KINDS
def test_other_codecs_go_to_the_cpu_backend_clip_by_clip(
    workers: dict[str, Any], paths: dict[str, Path], film_file: FilmFolder, tmp_path: Path
) -> None:
    films = index(tmp_path, paths["vp9"], film_file("h264_moving"))
    sampler = RandomClips(4, stride=2, clips_per_video=4)
    mixed = 0
    with VideoLoader(ClipDataset(films, sampler, (96, 160), "dali"), 4, shuffle=True, **workers) as loader:
        for batch in loader:
            check_numbers(batch)
            mixed += len(set(batch.video_id.tolist())) == 2
        assert loader.stats()["fallbacks"] == 4
    assert mixed
    strict = ClipDataset(films, sampler, (96, 160), "dali", fallback=False)
    with VideoLoader(strict, 4, shuffle=True, **workers) as loader, pytest.raises(DecodeError, match="h264"):
        list(loader)


@needs_dali
@KINDS
@pytest.mark.parametrize("fallback", [True, False])
def test_a_corrupt_slice_costs_one_clip(
    fallback: bool, workers: dict[str, Any], paths: dict[str, Path], tmp_path: Path
) -> None:
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(paths["vp9_mp4"].read_bytes())
    films = index(tmp_path, paths["vp9"], bad)
    overwrite_packets(bad)
    sampler = RandomClips(4, stride=2, clips_per_video=4)
    dataset = ClipDataset(films, sampler, (96, 160), "dali", fallback=fallback)
    log = tmp_path / "errors.jsonl"
    options = {"on_error": "replace", "max_error_rate": 1, "error_log": log, **workers}
    seen = 0
    for batch in batches(dataset, **options):
        assert set(batch.video_id.tolist()) == {0}
        check_numbers(batch)
        seen += len(batch.video)
    assert seen == 16
    assert len(log.read_text().splitlines()) >= 8


def overwrite_packets(path: Path) -> None:
    video = demux_video(path)
    before, data = path.stat(), bytearray(path.read_bytes())
    for begin, size in zip(video.packet_pos.tolist(), video.packet_size.tolist(), strict=True):
        data[begin : begin + size] = b"\xff" * size
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


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
    import subprocess

    def run(code: str) -> str:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        return done.stdout.strip()

    return run
