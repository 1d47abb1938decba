"""Which batches come, and what is in them: the same whatever loads them."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import pytest
import torch

import vidload
from tests.loader.datasets import Gated, Numbers
from vidload import Batch, ClipDataset, VideoLoader
from vidload.clips.schedule import Schedule

WORKERS = [
    (0, "process"),
    (1, "thread"),
    (2, "thread"),
    (3, "thread"),
    (1, "process"),
    (2, "process"),
    (3, "process"),
]
EPOCHS = 2


def digest(batch: Batch) -> tuple[Any, ...]:
    """All there is in a batch."""
    return (
        batch.epoch,
        batch.step,
        batch.sample.tolist(),
        batch.video_id.tolist(),
        batch.label.tolist(),
        batch.frames.tolist(),
        batch.pts.tolist(),
        {name: list(map(str, column)) for name, column in batch.extra.items()},
        tuple(batch.video.shape),
        hashlib.sha1(batch.video.permute(0, 2, 3, 4, 1).numpy().tobytes()).hexdigest(),
    )


def by_hand(clips: ClipDataset, schedule: Schedule) -> list[tuple[Any, ...]]:
    """The digests that batches should have, from single clips."""
    digests = []
    for epoch in range(EPOCHS):
        for step in range(schedule.steps_per_epoch):
            samples = schedule.samples(epoch, step)
            taken = [clips.seeded_sample(sample, schedule.seed, epoch) for sample in samples.tolist()]
            batch = Batch(
                video=torch.stack([clip.video for clip in taken]),
                label=torch.tensor([clip.label for clip in taken]),
                pts=torch.stack([clip.pts for clip in taken]),
                video_id=torch.tensor([clip.video_id for clip in taken]),
                frames=torch.stack([clip.frames for clip in taken]),
                sample=torch.from_numpy(samples),
                repeated=torch.zeros(len(taken), dtype=torch.bool),
                extra={
                    "place": [clip.extra["place"] for clip in taken],
                    "weight": torch.tensor([clip.extra["weight"] for clip in taken]),
                },
                epoch=epoch,
                step=step,
            )
            digests.append(digest(batch))
    return digests


@pytest.mark.parametrize(("num_workers", "worker_kind"), WORKERS)
@pytest.mark.parametrize("prefetch_batches", [1, 4])
def test_clips_are_the_same_whatever_loads_them(
    clips: ClipDataset, num_workers: int, worker_kind: Any, prefetch_batches: int
) -> None:
    arguments: dict[str, Any] = {"batch_size": 4, "shuffle": True, "seed": 7}
    with VideoLoader(
        clips, num_workers=num_workers, worker_kind=worker_kind, prefetch_batches=prefetch_batches, **arguments
    ) as loader:
        got = [digest(batch) for _ in range(EPOCHS) for batch in loader]
    assert got == by_hand(clips, Schedule(len(clips), **arguments))


def test_clips_of_another_seed_or_epoch_are_others(clips: ClipDataset) -> None:
    def videos(seed: int) -> list[Any]:
        with VideoLoader(clips, batch_size=10, num_workers=0, seed=seed) as loader:
            return [digest(batch)[-1] for _ in range(2) for batch in loader]

    assert len({*videos(0), *videos(1)}) == 4


def test_a_batch_is_what_is_promised(clips: ClipDataset) -> None:
    with VideoLoader(clips, batch_size=4, num_workers=1, worker_kind="thread") as loader:
        *_, last = loader
        first = next(iter(loader))
    assert len(first) == 4
    assert len(last) == 2
    assert first.video.shape == (4, 3, 4, 16, 32)
    assert first.video.dtype == torch.uint8
    assert first.video.is_contiguous(memory_format=torch.channels_last_3d)
    assert last.video.shape == (2, 3, 4, 16, 32)
    assert first.label.tolist() == first.video_id.tolist() == [0, 0, 0, 0]
    assert last.label.tolist() == [1, 1]
    assert (first.label.dtype, first.pts.dtype, first.frames.dtype) == (torch.int64, torch.float64, torch.int64)
    assert first.pts.shape == first.frames.shape == (4, 4)
    assert first.extra["place"] == ["p0"] * 4
    assert last.extra["weight"].tolist() == [1.5, 1.5]
    assert (first.epoch, first.step, last.epoch, last.step) == (1, 0, 0, 2)
    first.video.add_(1)  # it is the consumer's


def test_the_clip_data_set_of_the_loader_is_that_of_single_access(clips: ClipDataset) -> None:
    with VideoLoader(clips, batch_size=1, num_workers=1) as loader:
        for batch in loader:
            single = clips.seeded_sample(int(batch.sample), 0, 0)
            assert torch.equal(batch.video[0], single.video)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("num_workers", "worker_kind"), [(0, "thread"), (2, "thread"), (2, "process")])
def test_each_sample_comes_once_per_epoch(shuffle: bool, drop_last: bool, num_workers: int, worker_kind: Any) -> None:
    loader = VideoLoader(
        Numbers(11),
        batch_size=3,
        num_workers=num_workers,
        worker_kind=worker_kind,
        shuffle=shuffle,
        drop_last=drop_last,
        collate_fn=list,
    )
    with loader:
        epochs = [list(loader) for _ in range(3)]
    assert len(loader) == (3 if drop_last else 4)
    for batches in epochs:
        assert [len(batch) for batch in batches] == [3, 3, 3] + [2] * (not drop_last)
        samples = [sample for batch in batches for sample in batch]
        assert len(set(samples)) == len(samples)
        assert set(samples) <= set(range(11))
    if shuffle:
        assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    else:
        assert epochs[0] == epochs[1] == epochs[2] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]] + [[9, 10]] * (not drop_last)


def test_the_order_is_the_schedules() -> None:
    schedule = Schedule(20, 3, seed=5, shuffle=True)
    with VideoLoader(Numbers(20), 3, num_workers=2, worker_kind="thread", shuffle=True, seed=5, collate_fn=list) as a:
        for epoch in range(3):
            assert list(a) == [schedule.samples(epoch, step).tolist() for step in range(7)]


def test_out_of_order_a_slow_sample_holds_up_no_other_batch() -> None:
    dataset = Gated(6)
    dataset.open(1, 2, 3, 4, 5)  # but not 0
    with VideoLoader(
        dataset, num_workers=3, worker_kind="thread", in_order=False, prefetch_batches=3, collate_fn=list
    ) as loader:
        iterator = iter(loader)
        assert sorted(next(iterator) for _ in range(5)) == [[1], [2], [3], [4], [5]]
        dataset.wait_until_asked(1, times=2)  # the next epoch is under way; its samples must not come yet
        dataset.open(0)
        assert list(iterator) == [[0]]
        assert Counter(sample for (sample,) in loader) == Counter(range(6))


@pytest.mark.parametrize("worker_kind", ["thread", "process"])
def test_out_of_order_each_epoch_is_whole(worker_kind: Any) -> None:
    with VideoLoader(
        Numbers(7),
        batch_size=2,
        num_workers=3,
        worker_kind=worker_kind,
        in_order=False,
        prefetch_batches=5,
        shuffle=True,
        collate_fn=len,
    ) as loader:
        for _ in range(20):
            assert sorted(loader) == [1, 2, 2, 2]


def test_out_of_order_clips_are_of_the_loops_epoch(clips: ClipDataset) -> None:
    with VideoLoader(
        clips, batch_size=2, num_workers=3, worker_kind="thread", in_order=False, prefetch_batches=6
    ) as loader:
        for epoch in range(3):
            batches = list(loader)
            assert {batch.epoch for batch in batches} == {epoch}
            assert sorted(batch.step for batch in batches) == [0, 1, 2, 3, 4]


def test_a_native_size_data_set_is_loaded_sample_by_sample(index_path: Any) -> None:
    dataset = ClipDataset(
        index_path, clips=vidload.UniformClips(2, stride=1, clips_per_video=2), size=None, decoder="pyav"
    )
    assert dataset.clip_shape is None
    with VideoLoader(dataset, batch_size=1, num_workers=1, worker_kind="thread", epochs=1) as loader:
        shapes = [tuple(clip.video.shape) for clip in loader]
    assert shapes == [(1, 3, 2, 128, 256)] * 2 + [(1, 3, 2, 64, 128)] * 2


def double(clip: vidload.Clip) -> Any:
    return clip.video.float().mean(), clip.frames


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_transformed_clip_data_set_has_the_clips_of_the_plain_one(clips: ClipDataset, num_workers: int) -> None:
    plain = [clips.seeded_sample(sample, 3, epoch) for epoch in range(2) for sample in range(len(clips))]
    clips.transform = double
    with VideoLoader(clips, batch_size=5, num_workers=num_workers, worker_kind="thread", seed=3) as loader:
        means, frames = zip(*(batch for _ in range(2) for batch in loader), strict=True)
    assert torch.cat(means).tolist() == [float(clip.video.float().mean()) for clip in plain]
    assert torch.cat(frames).tolist() == [clip.frames.tolist() for clip in plain]
