"""Copies to a device: no slot is written before its copy is done, and no batch is read before its copy is done."""

from __future__ import annotations

import gc
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from torch.nn.utils.rnn import pack_sequence

from tests.loader.datasets import Numbers
from tests.loader.simulated import SimulatedDevice
from vidload import ClipDataset, VideoLoader
from vidload.loader import loader as loader_module
from vidload.loader.device import Host, make_device
from vidload.loader.pipeline import Finished
from vidload.loader.ring import Ring
from vidload.loader.span import Span
from vidload.loader.stats import Stats
from vidload.loader.transfer import Sent, Transfer, map_tensors, tensors_of

ROW = 48


class Copies(RuleBasedStateMachine):
    """A scheduler that fills slots as soon as it may, streams that take their time, and a consumer that reads late."""

    def __init__(self) -> None:
        super().__init__()
        self.device = SimulatedDevice()
        self.transfer = Transfer(self.device, self.transform)  # type: ignore[arg-type]
        self.ring = Ring(100)
        self.slots: set[int] = set()
        self.number = 0
        self.sent: list[tuple[int, Sent]] = []
        self.kept: list[tuple[int, dict[str, torch.Tensor]]] = []
        self.wrong: list[tuple[int, str]] = []

    def transform(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        if self.number % 3:
            return batch
        return {"video": batch["video"], "negated": self.device.negated(batch["video"])}

    @rule()
    def load(self) -> None:
        self.transfer.collect()
        self.ring.retire()
        slot, _ = self.ring.take(ROW)
        self.slots.add(slot.number)
        self.number += 1
        slot.mapping.array((ROW,))[:] = self.number % 200
        array = self.ring.lend(slot, (ROW,))
        self.sent.append((self.number, self.transfer.send(Finished({"video": torch.from_numpy(array)}))))

    @precondition(lambda self: self.sent)
    @rule(keep=st.booleans())
    def receive(self, keep: bool) -> None:
        number, sent = self.sent.pop(0)
        batch = self.transfer.receive(sent).batch
        self.look(number, batch)
        if keep:
            self.kept.append((number, batch))

    @precondition(lambda self: self.sent)
    @rule()
    def leave(self) -> None:
        self.sent.pop()

    @precondition(lambda self: self.kept)
    @rule(which=st.integers(0, 99))
    def read_late(self, which: int) -> None:
        self.look(*self.kept[which % len(self.kept)])

    @precondition(lambda self: self.kept)
    @rule()
    def let_go(self) -> None:
        self.kept.pop(0)

    @rule(steps=st.integers(1, 5))
    def copy(self, steps: int) -> None:
        for _ in range(steps):
            self.device.copying.step()

    @rule(steps=st.integers(1, 5))
    def compute(self, steps: int) -> None:
        for _ in range(steps):
            self.device.current.step()

    def look(self, number: int, batch: dict[str, torch.Tensor]) -> None:
        for name, tensor in batch.items():
            expected = number % 200 if name == "video" else 255 - number % 200

            def check(read: torch.Tensor, name: str = name, expected: int = expected) -> None:
                if not bool((read == expected).all()):
                    self.wrong.append((number, name))

            self.device.read(tensor, check)

    @invariant()
    def nothing_wrong_was_read(self) -> None:
        assert not self.wrong

    def teardown(self) -> None:
        self.transfer.close()
        self.sent.clear()
        self.device.finish()
        assert not self.wrong
        self.kept.clear()
        assert self.device.blocks == 0
        assert len(self.ring._free) + len(self.ring._returned) == len(self.slots)  # all slots came back


TestCopies = Copies.TestCase
TestCopies.settings = settings(max_examples=150, stateful_step_count=60)


def test_a_slot_is_kept_until_its_copy_is_done() -> None:
    device, ring = SimulatedDevice(), Ring(4)
    transfer = Transfer(device)  # type: ignore[arg-type]
    slot, _ = ring.take(ROW)
    sent = transfer.send(Finished(torch.from_numpy(ring.lend(slot, (ROW,)))))
    del sent  # nobody waits for it any more, but the copy goes on
    assert ring.take(ROW)[0] is not slot
    transfer.collect()
    assert ring.take(ROW)[0] is not slot
    device.finish()
    transfer.collect()
    assert ring.take(ROW)[0] is slot


def test_copies_are_timed_when_they_are_done() -> None:
    spans: list[Span] = []
    stats = Stats()
    stats.add_observer(spans.append)
    device = SimulatedDevice()
    transfer = Transfer(device, stats=stats)  # type: ignore[arg-type]
    transfer.send(Finished(torch.arange(4)), (3, 5))
    transfer.collect()
    assert not spans
    device.finish()
    transfer.collect()
    (span,) = spans
    assert span[:4] == ("transfer", -1, 3, 5)
    assert span.end - span.start == pytest.approx(0.25)


def test_close_waits_for_copies() -> None:
    device = SimulatedDevice()
    transfer = Transfer(device)  # type: ignore[arg-type]
    sent = transfer.send(Finished(torch.arange(4)))
    assert not sent.mark.query()
    transfer.close()
    assert sent.mark.query()


# What is in a batch

Pair = namedtuple("Pair", "first second")


@dataclass(frozen=True)
class Sample:
    value: torch.Tensor
    name: str


def test_all_tensors_of_a_batch_are_moved_and_nothing_else() -> None:
    one = torch.ones(2)
    counts = defaultdict(list, a=one)
    batch = {
        "list": [one, "text", None],
        "tuple": (one, 3),
        "named": Pair(one, {"deep": one}),
        "dataclass": Sample(one, "x"),
        "ordered": OrderedDict(b=one, a=1),
        "default": counts,
        "class": Sample,
        "array": np.ones(2),
    }
    moved = map_tensors(batch, lambda tensor: tensor + 1)
    assert len(tensors_of(batch)) == 7
    assert all(bool((tensor == 2).all()) for tensor in tensors_of(moved))
    assert moved["named"]._fields == ("first", "second")
    assert moved["dataclass"].name == "x"
    assert list(moved["ordered"]) == ["b", "a"]
    assert moved["default"]["missing"] == []
    assert "missing" not in counts
    assert moved["class"] is Sample
    assert moved["array"] is batch["array"]
    assert bool((one == 1).all())


def test_packed_sequences_keep_their_sizes_on_the_host() -> None:
    packed = pack_sequence([torch.ones(3), torch.ones(2)])
    moved = map_tensors(packed, lambda tensor: tensor + 1)
    assert moved.batch_sizes is packed.batch_sizes
    assert bool((moved.data == 2).all())
    assert moved.sorted_indices is None


# Whole loaders

KINDS: list[dict[str, Any]] = [
    {"num_workers": 0},
    {"num_workers": 2, "worker_kind": "thread"},
    {"num_workers": 2, "worker_kind": "process"},
    {"num_workers": 2, "worker_kind": "thread", "in_order": False},
]


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> SimulatedDevice:
    simulated = SimulatedDevice()
    monkeypatch.setattr(loader_module, "make_device", lambda device: simulated)
    return simulated


def contents(device: SimulatedDevice, tensor: torch.Tensor) -> list[Any]:
    """What a stream that waits as it is told reads of a tensor, and nothing is done before."""
    read: list[torch.Tensor] = []
    device.read(tensor, read.append)
    device.finish()
    found: list[Any] = read[0].tolist()
    return found


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("ahead", [1, 2, 9])
def test_batches_are_those_of_the_host_over_epochs_and_breaks(
    kind: dict[str, Any], ahead: int, device: SimulatedDevice
) -> None:
    with VideoLoader(Numbers(12), 2, epochs=3, device_prefetch=ahead, prefetch_batches=4, **kind) as loader:
        first = [contents(device, batch) for batch in loader]
        assert sorted(first) == [[n, n + 1] for n in range(0, 12, 2)]
        for batch in loader:
            assert contents(device, batch) in first
            break
        assert sorted(contents(device, batch) for batch in loader) == sorted(first)
    assert device.late
    del batch
    gc.collect()
    device.finish()
    assert device.blocks == 0
    assert device.entered == ([] if not kind["num_workers"] else ["vidload-scheduler"])


def test_no_more_batches_are_on_the_device_than_asked_for(device: SimulatedDevice) -> None:
    with VideoLoader(
        Numbers(40), 2, num_workers=2, worker_kind="thread", prefetch_batches=8, device_prefetch=2
    ) as loader:
        most = 0
        for batch in loader:
            del batch
            device.finish()
            most = max(most, device.blocks)
    assert 1 <= most <= 3


def corner(tensor: torch.Tensor) -> torch.Tensor:
    """Where its memory begins."""
    return tensor.as_strided((min(8, tensor.numel()),), (1,))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_clips_are_copied_from_pinned_slots(
    kind: dict[str, Any], clips: ClipDataset, device: SimulatedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulated device is too small for them: only a corner of each goes there."""
    put = device.put
    monkeypatch.setattr(device, "put", lambda tensor: put(corner(tensor)))
    with VideoLoader(clips, 2, epochs=1, device_prefetch=2, prefetch_batches=3, **kind) as loader:
        seen = {tuple(contents(device, batch.sample)): contents(device, batch.video) for batch in loader}
        pinned = device.pinned
    monkeypatch.undo()
    with VideoLoader(clips, 2, num_workers=0) as loader:
        for batch in loader:
            assert seen.pop(tuple(batch.sample.tolist())) == corner(batch.video).tolist()
    assert not seen
    assert 1 <= pinned <= 6


def test_a_transform_changes_batches_on_the_device(device: SimulatedDevice) -> None:
    numbers = [torch.tensor([n], dtype=torch.uint8) for n in range(6)]
    with VideoLoader(
        numbers, 2, epochs=2, num_workers=1, worker_kind="thread", device_transform=device.negated
    ) as loader:
        for _ in range(2):
            assert [contents(device, batch) for batch in loader] == [[[255 - n], [255 - n - 1]] for n in range(0, 6, 2)]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_transform_on_the_host(kind: dict[str, Any]) -> None:
    with VideoLoader(Numbers(6), 2, device_transform=lambda batch: batch * 10, **kind) as loader:
        for _ in range(2):
            assert sorted(batch.tolist() for batch in loader) == [[0, 10], [20, 30], [40, 50]]


def test_an_error_of_a_transform_ends_the_run() -> None:
    def fail(batch: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no such kernel")

    with VideoLoader(Numbers(6), 2, num_workers=1, worker_kind="thread", device_transform=fail) as loader:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no such kernel"):
                next(iter(loader))


def test_the_host_is_a_device() -> None:
    assert isinstance(make_device("cpu"), Host)
    assert isinstance(make_device(torch.device("cpu")), Host)
