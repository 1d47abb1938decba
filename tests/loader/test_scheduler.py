"""The scheduler, turn by turn: workers finish when the test says so, so nothing here depends on time."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loader.fakes import ROW, FakePool, InPlace, stamp
from vidload.clips.schedule import Schedule
from vidload.errors import DecodeError, WorkerError
from vidload.loader.assembly import SampleAssembly
from vidload.loader.faults import Faults
from vidload.loader.messages import CollateTask, Failed, SampleTask
from vidload.loader.pipeline import Finished, Key, Position
from vidload.loader.pool import Event
from vidload.loader.scheduler import Scheduler
from vidload.loader.span import Span
from vidload.loader.stats import Stats


def make(
    *,
    samples: int = 6,
    batch_size: int = 2,
    workers: int = 2,
    depth: int = 2,
    epochs: int | None = None,
    collated: bool = False,
    trace: Any = None,
) -> tuple[Scheduler, FakePool]:
    pool = FakePool(workers)
    assembly = SampleAssembly(0, packed=False, default_collate=False) if collated else InPlace()
    order = Schedule(samples, batch_size)
    faults = Faults("raise", 1.0, None, order, lambda sample: {}, 0)
    scheduler = Scheduler(order, epochs, pool, assembly, faults, depth=depth, stats=stats_of(trace))
    scheduler.start()
    return scheduler, pool


def stats_of(trace: Any) -> Stats:
    stats = Stats()
    if trace is not None:
        stats.add_observer(trace)
    return stats


def turn(scheduler: Scheduler, epoch: int, taken: int) -> list[tuple[Key, Finished]]:
    return scheduler.turn(Position(0, epoch, taken))


def run(scheduler: Scheduler, pool: FakePool, epoch: int, taken: int) -> dict[Key, Finished]:
    """Turn with a consumer that stays where it is, until workers have nothing to do."""
    finished: dict[Key, Finished] = {}
    while True:
        pool.finish_all()
        idle, sent = not pool.events, len(pool.sent)
        finished.update(turn(scheduler, epoch, taken))
        if idle and len(pool.sent) == sent:
            return finished


def test_all_workers_build_the_first_batch_together() -> None:
    scheduler, pool = make(samples=8, batch_size=4, workers=4)
    turn(scheduler, 0, 0)
    first = [(worker, task.sample) for worker, task in pool.sent[:4] if isinstance(task, SampleTask)]
    assert sorted(first) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_workers_have_the_next_task_at_hand_but_no_more() -> None:
    scheduler, pool = make(samples=100, batch_size=10, workers=3, depth=5)
    turn(scheduler, 0, 0)
    assert [len(queue) for queue in pool.queues] == [2, 2, 2]
    pool.finish(1)
    turn(scheduler, 0, 0)  # takes in the result ...
    turn(scheduler, 0, 0)  # ... and hands out
    assert [len(queue) for queue in pool.queues] == [2, 2, 2]


def test_the_next_epochs_first_batch_is_finished_before_this_ones_last_is_taken() -> None:
    scheduler, pool = make(samples=6, batch_size=2, depth=2)
    assert run(scheduler, pool, 0, 0).keys() == {(0, 0), (0, 1)}
    assert run(scheduler, pool, 0, 1).keys() == {(0, 2)}
    assert run(scheduler, pool, 0, 2).keys() == {(1, 0)}  # (0, 2) isn't taken yet


def test_an_epoch_of_one_batch_is_loaded_ahead_of_many() -> None:
    scheduler, pool = make(samples=2, batch_size=2, depth=3)
    assert run(scheduler, pool, 0, 0).keys() == {(0, 0), (1, 0), (2, 0)}
    assert run(scheduler, pool, 1, 1).keys() == {(3, 0), (4, 0)}


def test_nothing_beyond_the_last_epoch_is_asked_for() -> None:
    scheduler, pool = make(samples=5, batch_size=2, depth=4, epochs=2)
    for epoch in range(2):
        for taken in range(4):
            run(scheduler, pool, epoch, taken)
    assert pool.samples == [(epoch, sample) for epoch in range(2) for sample in range(5)]
    assert not scheduler.is_over(1)
    assert scheduler.is_over(2)


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_no_more_than_the_depth_is_loaded_in_vain(depth: int) -> None:
    scheduler, pool = make(samples=6, batch_size=2, depth=depth)
    run(scheduler, pool, 0, 3)
    run(scheduler, pool, 1, 3)
    assert len(pool.samples) == 2 * (2 * 3 + depth)


def test_a_consumer_that_leaves_an_epoch_cancels_what_is_not_handed_out() -> None:
    scheduler, pool = make(samples=100, batch_size=10, workers=2, depth=3)
    turn(scheduler, 0, 0)
    assert pool.samples == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert run(scheduler, pool, 1, 0).keys() == {(1, 0), (1, 1), (1, 2)}
    assert pool.samples[4:] == [(1, sample) for sample in range(30)]


def test_epochs_can_be_skipped() -> None:
    scheduler, pool = make(samples=6, batch_size=2, depth=2)
    run(scheduler, pool, 0, 1)
    assert run(scheduler, pool, 7, 0).keys() == {(7, 0), (7, 1)}


def test_a_cancelled_batchs_slot_is_not_used_while_workers_write_into_it() -> None:
    scheduler, pool = make(samples=8, batch_size=2, workers=2, depth=2)
    turn(scheduler, 0, 0)
    written = {task.slot for _, task in pool.sent}
    assert len(written) == 2
    turn(scheduler, 1, 0)
    pool.finish(0)
    turn(scheduler, 1, 0)
    turn(scheduler, 1, 0)
    assert {task.slot for _, task in pool.sent if task.epoch == 1}.isdisjoint(written)
    kept = run(scheduler, pool, 1, 0)
    run(scheduler, pool, 2, 0)
    assert {task.slot for _, task in pool.sent if task.epoch == 2} == written  # they came back
    assert len(kept) == 2


def test_a_batch_is_collated_by_the_worker_that_completes_it_before_that_has_anything_else_to_do() -> None:
    scheduler, pool = make(samples=8, batch_size=2, workers=2, collated=True)
    turn(scheduler, 0, 0)
    pool.finish(1)
    turn(scheduler, 0, 0)
    pool.finish(0)
    turn(scheduler, 0, 0)
    worker, task = pool.sent[-1]
    assert isinstance(task, CollateTask)
    assert worker == 0
    assert [task] == list(pool.queues[0])
    pool.finish(0)
    assert dict(turn(scheduler, 0, 0)) == {(0, 0): Finished([0, 1])}


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_an_error_takes_the_place_of_its_batch_alone(order: list[int]) -> None:
    scheduler, pool = make(samples=6, batch_size=3, workers=3, depth=2)
    turn(scheduler, 0, 0)
    errors = {1: DecodeError("row 1"), 2: DecodeError("row 2")}
    for worker in order:
        pool.finish(worker, errors.get(worker))
    finished = run(scheduler, pool, 0, 0)
    assert finished[0, 0] == Finished(error=errors[1])  # of the first row, whichever came first
    assert finished[0, 1].error is None


def test_an_error_in_collating_takes_the_place_of_its_batch() -> None:
    scheduler, pool = make(samples=4, batch_size=2, workers=1, depth=2, collated=True)
    error = DecodeError("no")
    turn(scheduler, 0, 0)
    for _ in range(2):
        pool.finish(0)
        turn(scheduler, 0, 0)
        turn(scheduler, 0, 0)
    assert isinstance(pool.queues[0][0], CollateTask)
    pool.finish(0, error)
    assert run(scheduler, pool, 0, 0) == {(0, 0): Finished(error=error), (0, 1): Finished([2, 3])}


def test_slots_of_failed_batches_come_back() -> None:
    scheduler, pool = make(samples=100, batch_size=1, workers=1, depth=1)
    for taken in range(50):
        turn(scheduler, 0, taken)
        pool.finish(0, DecodeError("no"))
        turn(scheduler, 0, taken)
    assert len({task.slot for _, task in pool.sent}) == 1


class _Silent(FakePool):
    """Workers that never get ready."""

    def wait(self, timeout: float | None) -> list[Event]:
        assert timeout == 300
        super().wait(timeout)
        return []


def test_workers_that_do_not_get_ready_are_replaced_and_end_the_run() -> None:
    now = 0.0
    pool, order = _Silent(2), Schedule(6, 2)
    faults = Faults("raise", 1.0, None, order, lambda sample: {}, 0)
    scheduler = Scheduler(order, None, pool, InPlace(), faults, depth=2, timeout=1, clock=lambda: now)
    scheduler.start()
    turn(scheduler, 0, 0)
    assert pool.restarted == []
    for end in (300.0, 600.0):
        pool.restarted.clear()
        now = end - 300
        turn(scheduler, 0, 0)
        now = end
        scheduler._end_hanging()
        assert pool.restarted == [0, 1]
    now = 900.0
    with pytest.raises(WorkerError, match="worker 0 took longer than a start may take before it had loaded"):
        scheduler._end_hanging()


def test_a_worker_that_dies_is_replaced_and_its_tasks_are_done() -> None:
    scheduler, pool = make(samples=6, batch_size=2, workers=2, depth=2)
    turn(scheduler, 0, 0)
    turn(scheduler, 0, 0)  # both are ready, and have two tasks each
    pool.events.append(Event(1, None, reason="it died"))
    finished = run(scheduler, pool, 0, 0)
    assert pool.restarted == [1]
    assert {key: made.batch[1] for key, made in finished.items()} == {(0, 0): [0, 1], (0, 1): [2, 3]}


def test_workers_that_were_dead_before_they_began_a_task_do_not_count() -> None:
    """All are killed at once, and the scheduler hears of it one by one, handing tasks to the next dead one."""
    scheduler, pool = make(samples=6, batch_size=2, workers=3, depth=2)
    turn(scheduler, 0, 0)
    pool.beginning_nothing = {0, 1, 2}
    for _ in range(2):
        for worker in range(3):
            pool.events.append(Event(worker, None, reason="it was killed"))
            turn(scheduler, 0, 0)
            turn(scheduler, 0, 0)
    pool.beginning_nothing = set()
    finished = run(scheduler, pool, 0, 0)
    assert {key: made.batch[1] for key, made in finished.items()} == {(0, 0): [0, 1], (0, 1): [2, 3]}
    assert len(pool.restarted) == 6


def test_a_task_that_is_lost_over_and_over_is_an_error_in_the_end() -> None:
    scheduler, pool = make(samples=2, batch_size=2, workers=1, depth=1)
    turn(scheduler, 0, 0)
    pool.beginning_nothing = {0}
    finished: dict[Key, Finished] = {}
    while not finished:
        turn(scheduler, 0, 0)
        pool.events.append(Event(0, None, reason="it died at once"))
        finished = dict(turn(scheduler, 0, 0))
        assert len(pool.restarted) <= 20
    assert isinstance(finished[0, 0].error, WorkerError)
    assert "it died at once" in str(finished[0, 0].error)


def test_a_task_that_two_workers_die_over_is_an_error_that_names_it() -> None:
    scheduler, pool = make(samples=2, batch_size=1, workers=2, depth=1)
    turn(scheduler, 0, 0)
    turn(scheduler, 0, 0)
    first = pool.sent[-1][0]
    pool.events.append(Event(first, None, reason="worker process (pid 5) was ended by SIGSEGV"))
    turn(scheduler, 0, 0)
    turn(scheduler, 0, 0)
    second = pool.sent[-1][0]
    assert second != first  # tried once more, elsewhere
    pool.events.append(Event(second, None, reason="worker process (pid 6) was ended by SIGSEGV"))
    ((key, finished),) = turn(scheduler, 0, 0)
    assert key == (0, 0)
    assert isinstance(finished.error, WorkerError)
    assert "(pid 6) was ended by SIGSEGV, at step 0 of epoch 0, sample 0" in str(finished.error)


def test_workers_that_die_before_they_are_ready_end_the_run() -> None:
    scheduler, pool = make(workers=1)
    pool.events = [Event(0, None, reason="it died")] * 3
    with pytest.raises(WorkerError, match="before it had loaded the data set"):
        turn(scheduler, 0, 0)


def test_a_worker_that_cannot_start_ends_the_run_with_its_reason() -> None:
    scheduler, pool = make()
    pool.events.append(Event(0, Failed(None, WorkerError("can't load"))))
    with pytest.raises(WorkerError, match="can't load"):
        turn(scheduler, 0, 0)


def test_spans_are_passed_on_those_of_cancelled_tasks_too() -> None:
    spans: list[Span] = []
    scheduler, pool = make(samples=4, batch_size=2, workers=1, depth=1, trace=spans.append)
    turn(scheduler, 0, 0)
    pool.finish(0)
    turn(scheduler, 1, 0)
    run(scheduler, pool, 1, 0)
    assert [(span.epoch, span.step) for span in spans] == [(0, 0), (0, 0), (1, 0), (1, 0)]


def test_closing_closes_the_pool() -> None:
    scheduler, pool = make()
    scheduler.start()
    assert pool.state == "started"
    turn(scheduler, 0, 0)
    scheduler.close()
    assert pool.state == "closed"


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    samples=st.integers(1, 12),
    batch_size=st.integers(1, 5),
    workers=st.integers(1, 4),
    depth=st.integers(1, 4),
    epochs=st.sampled_from([None, 1, 3]),
)
def test_whatever_workers_and_consumer_do(
    seed: int, samples: int, batch_size: int, workers: int, depth: int, epochs: int | None
) -> None:
    scheduler, pool = make(samples=samples, batch_size=batch_size, workers=workers, depth=depth, epochs=epochs)
    schedule = Schedule(samples, batch_size)
    steps, choose = schedule.steps_per_epoch, random.Random(seed)
    ready: dict[Key, Finished] = {}
    seen: set[Key] = set()
    kept: list[tuple[Key, np.ndarray]] = []
    epoch = taken = 0

    def take_turn() -> None:
        for key, finished in turn(scheduler, epoch, taken):
            assert key not in seen
            seen.add(key)
            rows, results = finished.batch
            assert results == schedule.samples(*key).tolist()
            if key[0] >= epoch:
                ready[key] = finished
                kept.append((key, rows))

    for _ in range(60):
        busy = [worker for worker, queue in enumerate(pool.queues) if queue]
        match choose.randrange(5):
            case 0 | 1 if busy:
                pool.finish(choose.choice(busy))
            case 2 if (epoch, taken) in ready:
                del ready[epoch, taken]
                taken += 1
            case 3 if kept:
                key, rows = kept.pop(choose.randrange(len(kept)))
                if key >= (epoch, taken):  # not given away yet
                    kept.append((key, rows))
            case 4 if taken == steps or (taken and choose.random() < 0.2):
                epoch, taken = epoch + 1, 0
                for key in [key for key in ready if key[0] < epoch]:
                    del ready[key]
        take_turn()
        assert all((rows == [[stamp(e, s)] * ROW for s in schedule.samples(e, t)]).all() for (e, t), rows in kept)
        assert all(len(queue) <= 2 for queue in pool.queues)
        last = max((e * steps + s // batch_size for e, s in pool.samples), default=-1)
        assert last < epoch * steps + taken + depth
        assert epochs is None or last < epochs * steps
    # However it went, a consumer that goes on gets what is next.
    for _ in range(1000):
        if scheduler.is_over(epoch) or taken == steps or (epoch, taken) in ready:
            break
        take_turn()
        pool.finish_all()
    else:
        pytest.fail(f"batch {epoch, taken} doesn't come")
