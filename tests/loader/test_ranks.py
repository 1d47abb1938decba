"""Several ranks: as many steps on each, each sample once, and the same order on any number of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch.distributed

import vidload
from tests.loader import ddp_script
from tests.loader.datasets import Numbers
from tests.loader.hashes import clip_contents
from tests.loader.processes import run_python
from vidload import VideoLoader
from vidload.clips.schedule import Schedule
from vidload.errors import ArgumentError
from vidload.loader.ranks import find_ranks


@pytest.fixture(autouse=True)
def no_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def ranks_of(dataset: Any, world_size: int, global_batch_size: int, **arguments: Any) -> list[VideoLoader]:
    arguments = {"num_workers": 0, "shuffle": True, "seed": 11} | arguments
    return [
        VideoLoader(dataset, global_batch_size // world_size, rank=rank, world_size=world_size, **arguments)
        for rank in range(world_size)
    ]


def steps_of(loaders: list[VideoLoader]) -> list[list[int]]:
    """For each step of an epoch the samples of all ranks, without the repeated ones."""
    steps = []
    for batches in zip(*loaders, strict=True):
        assert len({len(batch) for batch in batches}) == 1
        repeats = [loader.repeated for loader in loaders]
        steps.append(
            [
                number
                for batch, repeated in zip(batches, repeats, strict=True)
                for number, again in zip(batch, [False] * len(batch) if repeated is None else repeated, strict=True)
                if not again
            ]
        )
    return steps


def test_ranks_come_from_the_arguments_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_ranks(None, None) == (0, 1)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert find_ranks(None, None) == (1, 3)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 4)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 5)
    assert find_ranks(None, None) == (4, 5)
    assert find_ranks(2, 6) == (2, 6)
    with VideoLoader(Numbers(30), num_workers=0) as loader:
        assert (loader.rank, loader.world_size, len(loader)) == (4, 5, 6)


@pytest.mark.parametrize(
    ("rank", "world_size", "named"),
    [
        (0, None, "rank=0, world_size=None: give both"),
        (None, 2, "rank=None, world_size=2: give both"),
        (2, 2, "rank=2, world_size=2"),
        (-1, 2, "rank=-1"),
        (0, 0, "world_size=0"),
        (True, 2, "rank=True"),
        (0.0, 2, "rank=0.0"),
    ],
)
@pytest.mark.parametrize("sampler", [None, range(3)])
def test_ranks_that_cannot_be_are_refused(rank: Any, world_size: Any, named: str, sampler: Any) -> None:
    with pytest.raises(ArgumentError, match=named):
        VideoLoader(Numbers(9), num_workers=0, rank=rank, world_size=world_size, sampler=sampler)


@pytest.mark.parametrize(("rank", "world_size"), [("x", "2"), ("2", "2"), ("0", "")])
def test_variables_that_cannot_be_are_refused(monkeypatch: pytest.MonkeyPatch, rank: str, world_size: str) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", world_size)
    with pytest.raises(ArgumentError, match=f"RANK='?{rank}'?, WORLD_SIZE='?{world_size}"):
        VideoLoader(Numbers(9), num_workers=0)


@pytest.mark.parametrize("samples", [1, 2, 11, 12, 13, 25])
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_an_epoch_of_all_ranks_is_each_sample_once(samples: int, world_size: int) -> None:
    loaders = ranks_of(Numbers(samples), world_size, 12, collate_fn=list)
    assert {len(loader) for loader in loaders} == {-(-samples // 12)}
    for _ in range(2):
        steps = steps_of(loaders)
        assert sorted(number for step in steps for number in step) == list(range(samples))


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_drop_last_repeats_nothing(world_size: int) -> None:
    loaders = ranks_of(Numbers(25), world_size, 12, collate_fn=list, drop_last=True)
    for loader, other in zip(loaders, loaders, strict=True):
        assert len(loader) == len(other) == 2
    seen = []
    for loader in loaders:
        for batch in loader:
            assert loader.repeated is None
            assert len(batch) == 12 // world_size
            seen += batch
    assert len(seen) == len(set(seen)) == 24
    with pytest.raises(ArgumentError, match=r"drop_last=True with batch_size=5 on 2 ranks leaves nothing of 9 samples"):
        VideoLoader(Numbers(9), 5, drop_last=True, rank=1, world_size=2)


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_an_evaluation_that_leaves_out_the_repeated_is_exact(clips: vidload.ClipDataset, world_size: int) -> None:
    """Ten clips on ranks of one clip a batch: with 3 and 4 ranks the last step has two repetitions."""
    total = count = repetitions = 0
    for rank in range(world_size):
        with VideoLoader(clips, 1, num_workers=0, rank=rank, world_size=world_size) as loader:
            for batch in loader:
                total += int(batch.sample[~batch.repeated].sum())
                count += int((~batch.repeated).sum())
                repetitions += int(batch.repeated.sum())
                assert loader.repeated is None or loader.repeated.tolist() == batch.repeated.tolist()
    assert (total, count, repetitions) == (45, 10, -10 % world_size)


@pytest.mark.parametrize("before", [1, 2, 3, 4])
def test_another_number_of_ranks_goes_on_in_the_same_global_order(before: int) -> None:
    """Stopped after each step: 25 samples, 12 a step, two epochs."""
    schedule = Schedule(25, 12, seed=11, shuffle=True)
    whole = [[schedule.samples(epoch, step).tolist() for step in range(3)] for epoch in range(2)]
    for taken in range(4):
        for after in (1, 2, 3, 4):
            first = ranks_of(Numbers(25), before, 12, collate_fn=list)
            second = ranks_of(Numbers(25), after, 12, collate_fn=list)
            iterators = [iter(loader) for loader in first]
            for _ in range(taken):
                for iterator in iterators:
                    next(iterator)
            states = [loader.state_dict() for loader in first]
            assert all(state == states[0] for state in states)
            for loader in second:
                loader.load_state_dict(states[-1])
            assert steps_of(second) == whole[0][taken:]
            assert steps_of(second) == whole[1]


def test_whole_runs_over_1_to_4_ranks_have_the_same_clips(index_path: Path) -> None:
    """Pixels too: what is random in a clip depends on the sample and the epoch, not on the rank."""
    dataset = vidload.ClipDataset(
        index_path,
        clips=vidload.RandomClips(num_frames=4, stride=2, clips_per_video=7),
        size=vidload.RandomResizedCrop((16, 32)),
        decoder="pyav",
    )
    runs = []
    for world_size in (1, 2, 3, 4):
        loaders = ranks_of(dataset, world_size, 12)
        run = []
        for _ in range(2):
            for batches in zip(*loaders, strict=True):
                contents = [
                    content
                    for batch in batches
                    for content, repeated in zip(clip_contents(batch), batch.repeated, strict=True)
                    if not repeated
                ]
                run.append(contents)
        runs.append(run)
    assert len({content for step in runs[0] for content in step}) == 28
    assert runs[1:] == runs[:1] * 3


def torchrun(ranks: int, folder: Path, *arguments: str | Path) -> list[Any]:
    folder.mkdir()
    result = run_python(
        *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)),
        *(str(Path(ddp_script.__file__)), folder, "6", *arguments),
        timeout=100,
    )
    assert result.returncode == 0, result.stderr
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(ranks)]


def union(ranks: list[Any]) -> list[list[int]]:
    """The samples of each step on all ranks, without the repeated ones."""
    steps = zip(*(rank["seen"] for rank in ranks), strict=True)
    return [
        [number for _, batch, repeated in step for number, again in zip(batch, repeated, strict=True) if not again]
        for step in steps
    ]


def test_torchrun_with_distributed_data_parallel_and_a_restart_on_more_ranks(tmp_path: Path) -> None:
    schedule = Schedule(ddp_script.SAMPLES, 6, seed=ddp_script.SEED, shuffle=True)
    whole = [schedule.samples(epoch, step).tolist() for epoch in range(ddp_script.EPOCHS) for step in range(4)]
    on_two = torchrun(2, tmp_path / "two")
    on_three = torchrun(3, tmp_path / "three", tmp_path / "two" / "state.json")  # taken in epoch 0, after three steps
    assert union(on_two) == whole
    assert union(on_three) == whole[3:]
    assert any(any(repeated) for rank in on_two for _, _, repeated in rank["seen"])
    for ranks in (on_two, on_three):
        assert len({tuple(rank["parameters"]) for rank in ranks}) == 1
        assert len({len(rank["seen"]) for rank in ranks}) == 1
