"""Backend torchcodec: what is its own, and the side that decodes whole batches, here on the CPU."""

from __future__ import annotations

import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vidload
from tests.backends import NEEDS_TORCHCODEC
from tests.films import FILMS, FilmFolder, remux
from vidload import ClipDataset, RandomClips, VideoLoader
from vidload.decode.backends import Backends
from vidload.decode.encoded import encode_slice
from vidload.decode.source import read_slice
from vidload.decode.torchcodec import TorchcodecDecoder, TorchcodecDeviceDecoder, torchcodec_device_reason
from vidload.errors import ArgumentError, DecodeError
from vidload.index.demux import demux_video
from vidload.synthetic import read_number
from vidload.transforms.geometry import RandomResizedCrop, make_geometry

MEAN_DIFFERENCE = 6
"""Levels of 255, on the sharp edges of numbered frames; on real footage it is below 2.5, see docs/decoders.md."""


@NEEDS_TORCHCODEC
@pytest.mark.parametrize("film", ["h264_bframes", "hevc", "vp8", "vp9_mp4", "av1", "mpeg4", "mjpeg_avi"])
def test_batches_on_a_device_have_the_right_frames(film: str, film_file: FilmFolder) -> None:
    source, decoder = np.random.default_rng(3), TorchcodecDeviceDecoder("cpu")
    video = demux_video(film_file(film))
    for _ in range(6):
        clips = [source.integers(0, 60, 5).tolist() for _ in range(3)]
        placement = make_geometry((48, 96)).plan(*video.display_size, lambda: 0.5)
        decoded = decoder.decode([encode_slice(read_slice(video, frames), placement) for frames in clips], (48, 96))
        assert not decoded.errors
        for clip, frames in zip(decoded.video, clips, strict=True):
            assert [read_number(frame.numpy()) for frame in clip] == [100 + frame for frame in frames]


@NEEDS_TORCHCODEC
@pytest.mark.parametrize("rotation", [(0, False), (0, True), (90, False), (180, True), (270, False)])
def test_both_sides_place_the_picture_as_pyav_does(
    rotation: tuple[int, bool], film_file: FilmFolder, tmp_path: Path
) -> None:
    path = remux(film_file("h264_bframes"), tmp_path / "turned.mp4", rotation=rotation)
    video, source, device = demux_video(path), np.random.default_rng(2), TorchcodecDeviceDecoder("cpu")
    for size in ((40, 60), RandomResizedCrop((40, 40), flip=0.5), vidload.CenterCrop(32, resize=48)):
        geometry = make_geometry(size)
        placement = geometry.plan(*video.display_size, iter(source.random(40).tolist()).__next__)
        height, width = geometry.output_size or (0, 0)
        made = []
        for name in ("pyav", "torchcodec"):
            made.append(np.empty((2, height, width, 3), np.uint8))
            Backends(name).decode(video, [3, 30], placement, made[-1])
        clip = encode_slice(read_slice(video, [3, 30]), placement)
        made.append(device.decode([clip], (height, width)).video[0].numpy())
        for other in made[1:]:
            assert np.abs(other.astype(int) - made[0].astype(int)).mean() < MEAN_DIFFERENCE


@NEEDS_TORCHCODEC
def test_a_broken_clip_costs_no_other(film_file: FilmFolder) -> None:
    video = demux_video(film_file("h264_bframes"))
    placement = make_geometry(None).plan(*video.display_size, lambda: 0.5)
    clips = [encode_slice(read_slice(video, [frame, frame + 1]), placement) for frame in (0, 20, 40)]
    object.__setattr__(clips[1].parts[0], "data", np.zeros(1000, np.uint8))
    decoded = TorchcodecDeviceDecoder("cpu").decode(clips, (128, 256))
    assert list(decoded.errors) == [1]
    assert [read_number(frame.numpy()) for frame in decoded.video.flatten(0, 1)] == [100, 101, 140, 141]
    with pytest.raises(DecodeError, match=r"h264_bframes.mp4: frames 20, 21: can't be decoded: .*decoder torchcodec"):
        raise decoded.errors[1]


@NEEDS_TORCHCODEC
@pytest.mark.parametrize("kind", ["thread", "process"])
def test_the_loader_decodes_with_it_in_workers(kind: Any, film_file: FilmFolder, tmp_path: Path) -> None:
    films = [film_file(name) for name in ("h264_bframes", "vp9", "hevc_open_gop", "h264_open_gop")]
    vidload.build_index(films, tmp_path / "films.index", num_workers=0).close()
    sampler = RandomClips(num_frames=4, stride=3, clips_per_video=5)
    dataset = ClipDataset(tmp_path / "films.index", sampler, (48, 96), "torchcodec")
    with VideoLoader(dataset, 4, shuffle=True, num_workers=2, worker_kind=kind) as loader:
        for _ in range(2):
            for batch in loader:
                for clip, frames in zip(batch.video.permute(0, 2, 3, 4, 1), batch.frames.tolist(), strict=True):
                    assert [read_number(frame.numpy()) for frame in clip] == [100 + frame for frame in frames]
        assert loader.stats()["fallbacks"] == 0


@NEEDS_TORCHCODEC
def test_frames_of_other_times_are_refused(film_file: FilmFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should it ever give them."""
    import torchcodec.decoders

    give = torchcodec.decoders.VideoDecoder.get_frames_at

    def give_others(self: Any, numbers: list[int]) -> Any:
        return give(self, [numbers[0], *(number - 1 for number in numbers[1:])])

    monkeypatch.setattr(torchcodec.decoders.VideoDecoder, "get_frames_at", give_others)
    with pytest.raises(DecodeError, match="torchcodec gave frames of other times"):
        vidload.open_video(film_file("h264_bframes"), "torchcodec").frames([10, 13])


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (
            ModuleNotFoundError("No module named 'torchcodec'"),
            r"torchcodec isn't installed; pip install 'vidload\[torch",
        ),
        (
            RuntimeError("Could not load libtorchcodec.\nmore"),
            r"needs FFmpeg's libraries .* Could not load libtorchcodec\.$",
        ),
    ],
)
def test_what_is_missing_is_named(
    error: Exception, named: str, film_file: FilmFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    importer = builtins.__import__

    def fail(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("torchcodec"):
            raise error
        return importer(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", fail)
    with pytest.raises(ArgumentError, match=named):
        TorchcodecDecoder()
    vidload.build_index([film_file("vp9")], tmp_path / "films.index", num_workers=0).close()
    with pytest.raises(ArgumentError, match=named):
        ClipDataset(tmp_path / "films.index", decoder="torchcodec")


@pytest.mark.parametrize("film", FILMS, ids=str)
def test_what_cuda_takes_is_known_beforehand(film: Any, film_file: FilmFolder) -> None:
    reason = torchcodec_device_reason(demux_video(film_file(film)))
    takes = film.codec == "h264" and film.height >= 48
    assert (reason is None) == takes, reason  # the others are too small here, or of a codec that wasn't checked


@NEEDS_TORCHCODEC
def test_av1_is_refused_where_decord_was_loaded_first(film_file: FilmFolder) -> None:
    """Its libraries' symbols are global, and FFmpeg's AV1 decoder then calls another dav1d: the process crashes."""
    code = (
        "import sys, decord\n"
        "from vidload.decode.film import open_video\n"
        "from vidload.errors import DecodeError\n"
        "try:\n"
        "    open_video(sys.argv[1], 'torchcodec').frames([1])\n"
        "except DecodeError as error:\n"
        "    print(error)\n"
        "print(len(open_video(sys.argv[2], 'torchcodec').frames([1])))\n"
    )
    command = [sys.executable, "-c", code, str(film_file("av1")), str(film_file("hevc"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "torchcodec can't be used: decord was loaded in this process before it" in done.stdout
    assert done.stdout.splitlines()[-1] == "1"
