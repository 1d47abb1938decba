"""A loader that goes on from a state gives exactly the batches that were still to come."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributed.checkpoint.stateful import Stateful

from tests.loader.datasets import Gated, Numbers
from tests.loader.hashes import content, rest
from vidload import ClipDataset, VideoLoader
from vidload.errors import EpochsExhaustedError, LoaderClosedError, StateError

EPOCHS = 3
SAMPLES = 10
STEPS = 4


def numbers(**arguments: Any) -> VideoLoader:
    arguments = {"batch_size": 3, "shuffle": True, "seed": 7, "worker_kind": "thread", "collate_fn": list} | arguments
    return VideoLoader(Numbers(SAMPLES), **arguments)


def through_json(state: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(state))  # type: ignore[no-any-return]


def states_of(loader: VideoLoader, epochs: int) -> Iterator[dict[str, Any]]:
    """The state before each batch of a run, and after the last one in its loop."""
    yield loader.state_dict()
    for _ in range(epochs):
        for _ in loader:
            yield loader.state_dict()


@pytest.fixture(scope="module")
def whole() -> list[str]:
    with numbers(num_workers=0, epochs=EPOCHS) as loader:
        return rest(loader, EPOCHS)


@given(
    taken=st.integers(0, EPOCHS * STEPS),
    workers=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    prefetch=st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
@settings(max_examples=60, deadline=None)
def test_at_any_step_with_any_workers_and_prefetch(
    whole: list[str], taken: int, workers: tuple[int, int], prefetch: tuple[int, int]
) -> None:
    with numbers(epochs=EPOCHS, num_workers=workers[0], prefetch_batches=prefetch[0]) as first:
        state = through_json(next(islice(states_of(first, EPOCHS), taken, None)))
    with numbers(epochs=EPOCHS, num_workers=workers[1], prefetch_batches=prefetch[1]) as second:
        second.load_state_dict(state)
        assert rest(second, EPOCHS) == whole[taken:]


@pytest.mark.parametrize("kinds", [("process", "thread"), ("thread", "process")])
def test_clips_at_every_step_and_with_the_other_kind_of_worker(clips: ClipDataset, kinds: tuple[Any, Any]) -> None:
    def make(kind: Any, workers: int, prefetch: int) -> VideoLoader:
        return VideoLoader(
            clips, 3, epochs=2, num_workers=workers, worker_kind=kind, prefetch_batches=prefetch, shuffle=True, seed=3
        )

    with make(kinds[0], 2, 4) as first:
        states = [first.state_dict()]
        run = []
        for _ in range(2):
            for batch in first:
                run.append(content(batch))
                states.append(through_json(first.state_dict()))
    assert len(set(run)) == 8
    with make(kinds[1], 1, 1) as used:
        for taken, state in enumerate(states):
            used.load_state_dict(state)  # on a loader that was anywhere, its epochs exhausted too
            assert rest(used, 2) == run[taken:]
    with make(kinds[0], 0, 1) as inline:
        inline.load_state_dict(states[5])
        assert rest(inline, 2) == run[5:]


def test_a_new_loader_of_processes_in_mid_epoch(whole: list[str]) -> None:
    with numbers(worker_kind="process", num_workers=2, epochs=EPOCHS) as first:
        state = through_json(next(islice(states_of(first, EPOCHS), 6, None)))
    with numbers(worker_kind="process", num_workers=1, epochs=EPOCHS, prefetch_batches=6) as second:
        second.load_state_dict(state)
        assert rest(second, EPOCHS) == whole[6:]


def test_what_is_loaded_ahead_is_not_counted() -> None:
    dataset = Gated(8)
    with VideoLoader(dataset, 1, num_workers=1, worker_kind="thread", collate_fn=list, prefetch_batches=3) as loader:
        dataset.open(0, 1, 2)
        iterator = iter(loader)
        next(iterator)
        dataset.wait_until_asked(3)  # 1 and 2 are ready, 3 is in the works
        state = loader.state_dict()
        assert (state["epoch"], state["step"]) == (0, 1)
        dataset.open()
        loader.load_state_dict(state)
        assert list(loader) == [[n] for n in range(1, 8)]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_after_leaving_an_epoch_the_next_one_is_to_come(whole: list[str], num_workers: int) -> None:
    with numbers(num_workers=num_workers) as first, numbers(num_workers=num_workers) as second:
        for _ in first:
            break
        second.load_state_dict(first.state_dict())
        assert rest(second, EPOCHS) == whole[STEPS:]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_after_the_last_batch_the_loop_is_over_without_one(whole: list[str], num_workers: int) -> None:
    """In the loop the epoch goes on, and has no more batches; after it, the next epoch is to come."""
    with numbers(num_workers=num_workers) as first, numbers(num_workers=num_workers) as second:
        in_loop = [first.state_dict() for _ in first][-1]
        after_loop = first.state_dict()
        assert (in_loop["epoch"], in_loop["step"]) == (0, STEPS)
        assert (after_loop["epoch"], after_loop["step"]) == (1, 0)
        second.load_state_dict(in_loop)
        assert list(second) == []
        assert rest(second, EPOCHS) == whole[STEPS:]
        second.load_state_dict(after_loop)
        assert rest(second, EPOCHS) == whole[STEPS:]


def test_a_loaded_state_can_be_taken_again_at_once() -> None:
    with numbers() as first, numbers() as second:
        state = next(islice(states_of(first, 2), 6, None))
        second.load_state_dict(state)
        second.load_state_dict(state)
        assert second.state_dict() == state
        iter(second)
        assert second.state_dict() == state
        assert second.epoch == 1


def test_a_loop_that_a_state_was_loaded_in_is_over() -> None:
    with numbers() as loader:
        iterator = iter(loader)
        next(iterator)
        loader.load_state_dict(loader.state_dict())
        with pytest.raises(LoaderClosedError, match="a state that was loaded"):
            next(iterator)


def test_a_state_of_the_end_gives_nothing_more(whole: list[str]) -> None:
    with numbers(epochs=EPOCHS) as first, numbers(epochs=EPOCHS) as second:
        rest(first, EPOCHS)
        second.load_state_dict(first.state_dict())
        with pytest.raises(EpochsExhaustedError):
            iter(second)
        second.load_state_dict(numbers(num_workers=0).state_dict())
        assert rest(second, EPOCHS) == whole


def out_of_order(dataset: Any, **arguments: Any) -> VideoLoader:
    arguments = {"num_workers": 3, "worker_kind": "thread", "prefetch_batches": 4} | arguments
    return VideoLoader(dataset, 1, in_order=False, collate_fn=list, **arguments)


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_out_of_order_what_remains_of_each_epoch_is_exact(num_workers: int) -> None:
    dataset = Gated(6)
    with out_of_order(dataset) as first:
        dataset.open(2)
        iterator = iter(first)
        assert next(iterator) == [2]
        dataset.open(1)
        assert next(iterator) == [1]
        state = through_json(first.state_dict())
        dataset.open()
    assert (state["step"], state["done"]) == (2, [1, 2])
    with out_of_order(Numbers(6), num_workers=num_workers) as second:
        for _ in range(2):
            second.load_state_dict(state)
            assert sorted(second) == [[0], [3], [4], [5]]
            assert sorted(second) == [[n] for n in range(6)]


def test_out_of_order_a_state_is_one_of_as_many_ranks() -> None:
    ranks: list[dict[str, Any]] = [{"rank": 0, "world_size": 2}, {"rank": 0, "world_size": 1}]
    for in_order in (False, True):
        common: dict[str, Any] = {"num_workers": 0, "in_order": in_order}
        with (
            VideoLoader(Numbers(8), 1, **common, **ranks[0]) as first,
            VideoLoader(Numbers(8), 2, **common, **ranks[1]) as second,
        ):
            if in_order:
                second.load_state_dict(first.state_dict())
            else:
                with pytest.raises(StateError, match=r"the number of ranks \(.*\) was 2 and is 1"):
                    second.load_state_dict(first.state_dict())


def test_out_of_order_steps_done_are_those_of_one_epoch_only() -> None:
    """Also where the epoch that a state was loaded in is left before its last step was begun."""
    with out_of_order(Numbers(6), num_workers=1, prefetch_batches=1) as loader:
        loader.load_state_dict(loader.state_dict() | {"step": 2, "done": [4, 5]})
        for _ in loader:
            break
        assert sorted(loader) == [[n] for n in range(6)]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"seed": 8}, "the seed was 7 and is 8"),
    ({"batch_size": 4}, "the batch size times the number of ranks was 3 and is 4"),
    ({"rank": 0, "world_size": 2}, "the batch size times the number of ranks was 3 and is 6"),
    ({"shuffle": False}, "shuffle was True and is False"),
    ({"drop_last": True}, "drop_last was False and is True"),
    ({"in_order": False}, "in_order was True and is False"),
    ({"shuffle": False, "sampler": range(10)}, "whether a sampler gives the order was False and is True"),
    ({"seed": 8, "drop_last": True}, "the seed was 7 and is 8; drop_last"),
]


@pytest.mark.parametrize(("arguments", "named"), WRONG)
def test_a_loader_with_other_batches_says_what_differs(arguments: dict[str, Any], named: str) -> None:
    with numbers(num_workers=0) as first, numbers(num_workers=0, **arguments) as second:
        with pytest.raises(StateError, match=named):
            second.load_state_dict(first.state_dict())
        assert second.state_dict()["step"] == 0


def test_another_number_of_samples_or_another_index_is_refused(clips: ClipDataset) -> None:
    with VideoLoader(Numbers(9), num_workers=0) as first, VideoLoader(Numbers(10), num_workers=0) as second:
        with pytest.raises(StateError, match="the number of samples was 9 and is 10"):
            second.load_state_dict(first.state_dict())
        with VideoLoader(clips, num_workers=0) as third, pytest.raises(StateError, match="the index"):
            third.load_state_dict(second.state_dict())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"version": 2}, "format version 2; this vidload reads version 1"),
        ({"step": -1}, "aren't numbers"),
        ({"epoch": "0"}, "aren't numbers"),
        ({"step": True}, "aren't numbers"),
        ({"done": None}, "aren't numbers"),
        ({"done": ["a"]}, "aren't numbers"),
        ({"step": 2, "done": [1]}, "contradict"),
    ],
)
def test_a_state_that_is_no_state_is_refused(change: dict[str, Any], named: str) -> None:
    with numbers(num_workers=0) as loader, pytest.raises(StateError, match=named):
        loader.load_state_dict(loader.state_dict() | change)


@pytest.mark.parametrize("state", [{}, {"a": 1}, [], None, 3])
def test_anything_else_is_refused(state: Any) -> None:
    with numbers(num_workers=0) as loader, pytest.raises(StateError, match="no state of a VideoLoader"):
        loader.load_state_dict(state)


@pytest.mark.parametrize("missing", ["epoch", "step", "done", "seed"])
def test_a_state_that_lacks_a_part_is_refused(missing: str) -> None:
    with numbers(num_workers=0) as loader:
        state = loader.state_dict()
        del state[missing]
        with pytest.raises(StateError, match=f"lacks {missing}"):
            loader.load_state_dict(state)


def test_a_closed_loader_takes_no_state() -> None:
    loader = numbers()
    loader.close()
    with pytest.raises(LoaderClosedError):
        loader.load_state_dict(loader.state_dict())


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_it_is_stateful_to_torchs_distributed_checkpoints(whole: list[str], tmp_path: Path) -> None:
    with numbers(epochs=EPOCHS) as first, numbers(epochs=EPOCHS, num_workers=1) as second:
        assert isinstance(first, Stateful)
        net = torch.nn.Linear(2, 2)
        for _ in islice(states_of(first, EPOCHS), 6):
            pass
        taken = STEPS * first.epoch + first.state_dict()["step"]
        checkpoint.save({"net": net.state_dict(), "loader": first}, checkpoint_id=tmp_path, no_dist=True)
        checkpoint.load({"net": net.state_dict(), "loader": second}, checkpoint_id=tmp_path, no_dist=True)
        assert rest(second, EPOCHS) == whole[taken:]
