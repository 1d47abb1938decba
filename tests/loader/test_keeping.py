"""A batch belongs to the consumer: it stays what it is for as long as it, or any part of it, is kept."""

from __future__ import annotations

import gc
import hashlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vidload
from tests.loader.datasets import Arrays
from tests.loader.processes import run_python
from vidload import ClipDataset, VideoLoader

KINDS = [(0, "thread"), (2, "thread"), (2, "process")]


@pytest.fixture
def many_clips(index_path: Path) -> ClipDataset:
    clips = vidload.DenseClips(2, stride=1, hop=2)
    return ClipDataset(index_path, clips=clips, size=(16, 32), decoder="pyav")


def digest(video: torch.Tensor) -> str:
    return hashlib.sha1(video.contiguous().numpy().tobytes()).hexdigest()


def slots(batches: list[Any]) -> set[int]:
    """Where the memory of batches is."""
    return {batch.video.data_ptr() for batch in batches}


@pytest.mark.parametrize(("num_workers", "worker_kind"), KINDS)
def test_a_list_of_all_batches_stays_as_it_is(many_clips: ClipDataset, num_workers: int, worker_kind: Any) -> None:
    with VideoLoader(many_clips, 3, num_workers=num_workers, worker_kind=worker_kind) as loader:
        kept = list(loader)
        fresh = [digest(batch.video) for batch in loader]
        assert len(kept) == 27
        assert len(slots(kept)) == 27
        assert [digest(batch.video) for batch in kept] == fresh
    assert [digest(batch.video) for batch in kept] == fresh  # the loader is closed


@pytest.mark.parametrize(("num_workers", "worker_kind"), KINDS)
def test_dropped_batches_give_their_memory_back(many_clips: ClipDataset, num_workers: int, worker_kind: Any) -> None:
    with VideoLoader(many_clips, 3, num_workers=num_workers, worker_kind=worker_kind, prefetch_batches=2) as loader:
        kept = list(loader)
        del kept
        seen: set[int] = set()
        for _ in range(2):
            for batch in loader:
                seen |= slots([batch])
                del batch
    # Two loaded ahead, one in use, one more that is let go when the next is taken, and those of the kept ones.
    assert len(seen) <= 8


@pytest.mark.parametrize(("num_workers", "worker_kind"), KINDS)
def test_a_view_keeps_its_memory(many_clips: ClipDataset, num_workers: int, worker_kind: Any) -> None:
    with VideoLoader(many_clips, 3, num_workers=num_workers, worker_kind=worker_kind) as loader:
        iterator = iter(loader)
        view = next(iterator).video[1, :, 0].numpy()[1:]
        before = view.copy()
        where = view.__array_interface__["data"][0]
        for batch in iterator:
            start = batch.video.data_ptr()
            assert not start <= where < start + batch.video.numel()
        list(loader)
    assert np.array_equal(view, before)


@pytest.mark.parametrize(("num_workers", "worker_kind"), KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_kept_nothing_is_overwritten(
    many_clips: ClipDataset, num_workers: int, worker_kind: Any, seed: int
) -> None:
    choose = random.Random(seed)
    kept: list[tuple[torch.Tensor, str]] = []
    with VideoLoader(many_clips, 4, num_workers=num_workers, worker_kind=worker_kind, shuffle=True) as loader:
        for _ in range(4):
            for batch in loader:
                part = batch.video[choose.randrange(len(batch)) :] if choose.random() < 0.5 else batch.video
                kept.append((part, digest(part)))
                while kept and choose.random() < 0.5:
                    kept.pop(choose.randrange(len(kept)))
                if choose.random() < 0.05:
                    break
            assert all(digest(video) == was for video, was in kept)
            if choose.random() < 0.5:
                kept.clear()
    assert all(digest(video) == was for video, was in kept)


@pytest.mark.parametrize(("num_workers", "worker_kind"), KINDS)
def test_a_batch_may_be_written_into(many_clips: ClipDataset, num_workers: int, worker_kind: Any) -> None:
    with VideoLoader(many_clips, 3, num_workers=num_workers, worker_kind=worker_kind) as loader:
        fresh = [digest(batch.video) for batch in loader]
        for _ in range(2):
            for batch, was in zip(loader, fresh, strict=True):
                assert digest(batch.video) == was
                batch.video.fill_(77)


@pytest.mark.parametrize("size", [100, 100_000])
def test_samples_of_any_data_set_are_kept_and_written_too(size: int) -> None:
    with VideoLoader(Arrays(20, size), 2, num_workers=2, collate_fn=np.stack, epochs=2) as loader:
        kept = list(loader)
        for batch in loader:
            batch[...] = 255
            del batch
    gc.collect()
    assert [batch[:, [0, -1]].tolist() for batch in kept] == [[[n, n], [n + 1, n + 1]] for n in range(0, 20, 2)]
    kept[0][...] = 0
    assert kept[1][0, 0] == 2


def test_kept_batches_need_no_open_files(index_path: Path) -> None:
    script = f"""
import resource
import numpy as np, vidload
from tests.loader.datasets import Arrays
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
clips = vidload.ClipDataset({str(index_path)!r}, vidload.DenseClips(2, stride=1, hop=1), (16, 32), "pyav")
for workers, kind in (0, "thread"), (1, "thread"), (1, "process"):
    with vidload.VideoLoader(clips, 1, num_workers=workers, worker_kind=kind) as loader:
        kept = [batch for _ in range(2) for batch in loader]
        print(len(kept), sum(int(batch.video[0, 0, 0, 0, 0]) >= 0 for batch in kept))
with vidload.VideoLoader(Arrays(250, 100_000), 1, num_workers=1, collate_fn=np.stack, epochs=1) as loader:
    kept = list(loader)
    print(len(kept), [int(batch[0, -1]) for batch in kept] == [*range(250)])
"""
    done = run_python("-", script=script)
    assert done.stdout.split("\n") == ["316 316"] * 3 + ["250 True", ""], done.stderr
    assert not done.stderr
