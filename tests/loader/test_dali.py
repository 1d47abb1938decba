"""`VideoLoader` with DALI on the CPU: workers read, DALI decodes batches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

import vidload
from tests.decode.dali import MEAN_DIFFERENCE, difference, needs_dali, numbers
from tests.films import FilmFolder
from vidload import ClipDataset, RandomClips, RandomResizedCrop, SparseFrames, VideoLoader
from vidload.errors import DecodeError
from vidload.index.demux import demux_video


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
    workers: dict[str, Any], dali_films: dict[str, Path], tmp_path: Path
) -> None:
    films = index(tmp_path, *dali_films.values())
    dataset = ClipDataset(films, RandomClips(4, stride=3, clips_per_video=4), (96, 160), "dali", fallback=False)
    seen = 0
    for batch in batches(dataset, **workers):
        check_numbers(batch)
        seen += len(batch.video)
    assert seen == 2 * 16


@needs_dali
def test_clips_are_those_of_the_other_backends(dali_films: dict[str, Path], tmp_path: Path) -> None:
    films = index(tmp_path, *dali_films.values())
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
def test_a_loader_goes_on_from_its_state(dali_films: dict[str, Path], tmp_path: Path) -> None:
    dataset = ClipDataset(index(tmp_path, *dali_films.values()), RandomClips(4, clips_per_video=4), (96, 160), "dali")
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
    workers: dict[str, Any],
    dali_films: dict[str, Path],
    film_file: FilmFolder,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    films = index(tmp_path, dali_films["vp9"], film_file("h264_moving"))
    sampler = RandomClips(4, stride=2, clips_per_video=4)
    mixed = 0
    with VideoLoader(ClipDataset(films, sampler, (96, 160), "dali"), 4, shuffle=True, epochs=1, **workers) as loader:
        for batch in loader:
            check_numbers(batch)
            mixed += len(set(batch.video_id.tolist())) == 2
        assert loader.stats()["fallbacks"] == 4
    assert mixed
    told = [record.message for record in caplog.records if record.name == "vidload" and "dali" in record.message]
    assert len(told) == 1
    told_of = f"{film_file('h264_moving')}: decoder dali can't decode it on cpu: on the CPU DALI decodes"
    assert told[0].startswith(told_of)
    strict = ClipDataset(films, sampler, (96, 160), "dali", fallback=False)
    with VideoLoader(strict, 4, shuffle=True, **workers) as loader, pytest.raises(DecodeError, match="h264"):
        list(loader)


@needs_dali
@KINDS
@pytest.mark.parametrize("fallback", [True, False])
def test_a_corrupt_slice_costs_one_clip(
    fallback: bool, workers: dict[str, Any], dali_films: dict[str, Path], tmp_path: Path
) -> None:
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(dali_films["vp9_mp4"].read_bytes())
    films = index(tmp_path, dali_films["vp9"], bad)
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
