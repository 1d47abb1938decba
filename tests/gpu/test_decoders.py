"""Backends that decode on a GPU: right frames by number, the same part of the picture, faults that cost one clip."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import vidload
from tests.gpu.conftest import CODECS, FRAMES, Films
from vidload import ClipDataset, RandomClips, RandomResizedCrop, SparseFrames, VideoLoader
from vidload.errors import DecodeError
from vidload.synthetic import read_number

pytestmark = pytest.mark.gpu

DECODERS = ["dali", "torchcodec"]

every_decoder = pytest.mark.parametrize("decoder", DECODERS)

MEAN_DIFFERENCE = 4.0
"""Levels of 255 by which pixels may differ from PyAV's on average: another scaler, and chroma of another filter."""


@every_decoder
@pytest.mark.parametrize("codec", list(CODECS))
@pytest.mark.parametrize("kind", ["process", "thread"])
def test_frames_are_right_by_number(decoder: str, codec: str, kind: Any, films: Films) -> None:
    sampler = RandomClips(num_frames=6, stride=3, clips_per_video=20)
    # SVT-AV1 writes packets that only show a picture again; DALI isn't given slices with these.
    fallback = (decoder, codec) == ("dali", "av1")
    dataset = ClipDataset(films.index(codec), sampler, (96, 160), decoder, fallback=fallback)  # type: ignore[arg-type]
    with VideoLoader(dataset, 4, shuffle=True, device="cuda", num_workers=2, worker_kind=kind) as loader:
        seen = 0
        for _ in range(2):
            for batch in loader:
                assert batch.video.is_cuda
                for clip, frames in zip(batch.video.cpu().permute(0, 2, 3, 4, 1), batch.frames.tolist(), strict=True):
                    assert [read_number(frame.numpy()) for frame in clip] == frames
                    seen += 1
        assert seen == 40


@every_decoder
def test_sparse_frames_of_several_codecs_in_one_batch(decoder: str, films: Films) -> None:
    codecs = [codec for codec in CODECS if (decoder, codec) != ("dali", "av1")]
    dataset = ClipDataset(films.index(*codecs), SparseFrames(8, jitter=True), (96, 160), decoder, fallback=False)  # type: ignore[arg-type]
    with VideoLoader(dataset, 4, shuffle=True, device="cuda") as loader:
        for _ in range(3):
            for batch in loader:
                for clip, frames in zip(batch.video.cpu().permute(0, 2, 3, 4, 1), batch.frames.tolist(), strict=True):
                    assert [read_number(frame.numpy()) for frame in clip] == frames


@every_decoder
def test_pixels_are_nearly_those_of_the_cpu(decoder: str, films: Films) -> None:
    sampler = RandomClips(num_frames=4, stride=2, clips_per_video=6)
    made, expected = (
        videos(ClipDataset(films.index("h264"), sampler, RandomResizedCrop((96, 160), flip=0.5), name), device)  # type: ignore[arg-type]
        for name, device in ((decoder, "cuda"), ("pyav", "cpu"))
    )
    for one, other in zip(made, expected, strict=True):
        assert (one.float() - other.float()).abs().mean() < MEAN_DIFFERENCE


def videos(dataset: ClipDataset, device: str) -> list[torch.Tensor]:
    with VideoLoader(dataset, 3, shuffle=True, seed=2, device=device) as loader:
        return [batch.video.cpu() for batch in loader]


@every_decoder
def test_what_the_device_cannot_decode_goes_to_the_cpu_clip_by_clip(decoder: str, films: Films) -> None:
    index = films.index("h264", "ffv1")
    sampler = RandomClips(num_frames=4, stride=2, clips_per_video=4)
    dataset = ClipDataset(index, sampler, (96, 160), decoder)  # type: ignore[arg-type]
    with VideoLoader(dataset, 8, device="cuda") as loader:
        for batch in loader:
            assert sorted(set(batch.video_id.tolist())) == [0, 1]
            for clip, frames in zip(batch.video.cpu().permute(0, 2, 3, 4, 1), batch.frames.tolist(), strict=True):
                assert [read_number(frame.numpy()) for frame in clip] == frames
    strict = ClipDataset(index, sampler, (96, 160), decoder, fallback=False)  # type: ignore[arg-type]
    with VideoLoader(strict, 8, device="cuda") as loader, pytest.raises(DecodeError, match="ffv1"):
        next(iter(loader))


@every_decoder
@pytest.mark.parametrize("fallback", [True, False])
def test_a_corrupt_slice_costs_one_clip(decoder: str, fallback: bool, films: Films, tmp_path: Path) -> None:
    films.index("h264")
    good, bad = tmp_path / "good.mp4", tmp_path / "bad.mp4"
    for path in (good, bad):
        shutil.copy(films.folder / "h264.mp4", path)
    with vidload.build_index([good, bad], tmp_path / "films.index", num_workers=0) as index:
        places = list(zip(index[1].packet_pos.tolist(), index[1].packet_size.tolist(), strict=True))
    before, data = bad.stat(), bytearray(bad.read_bytes())
    for begin, size in places:
        data[begin : begin + size] = b"\xff" * size
    bad.write_bytes(data)
    os.utime(bad, ns=(before.st_atime_ns, before.st_mtime_ns))
    sampler = RandomClips(num_frames=4, stride=2, clips_per_video=6)
    dataset = ClipDataset(tmp_path / "films.index", sampler, (96, 160), decoder, fallback=fallback)  # type: ignore[arg-type]
    with VideoLoader(
        dataset,
        4,
        shuffle=True,
        device="cuda",
        on_error="replace",
        max_error_rate=1,
        error_log=tmp_path / "errors.jsonl",
    ) as loader:
        for _ in range(2):
            for batch in loader:
                assert set(batch.video_id.tolist()) == {0}
                for clip, frames in zip(batch.video.cpu().permute(0, 2, 3, 4, 1), batch.frames.tolist(), strict=True):
                    assert [read_number(frame.numpy()) for frame in clip] == frames
    assert len((tmp_path / "errors.jsonl").read_text().splitlines()) >= 12
    assert max(batch.frames.flatten().tolist()) < FRAMES
