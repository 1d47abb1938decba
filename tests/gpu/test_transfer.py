"""Batches on a GPU: right whenever and wherever they are read, and the host waits for nothing."""

from __future__ import annotations

import os
import time
import warnings
from collections import deque
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.gpu.conftest import Films
from tests.loader.processes import children
from vidload import Batch, ClipDataset, DeviceTransform, RandomClips, RandomResizedCrop, VideoLoader
from vidload.loader import cuda
from vidload.loader.device import Accelerator
from vidload.loader.memory import Mapping
from vidload.loader.transfer import tensors_of

pytestmark = pytest.mark.gpu

RACE_STEPS = 1000

KINDS: list[dict[str, Any]] = [
    {"num_workers": 0},
    {"num_workers": 2, "worker_kind": "thread"},
    {"num_workers": 2, "worker_kind": "process"},
    {"num_workers": 2, "worker_kind": "thread", "device_prefetch": 5, "prefetch_batches": 6},
]

every_kind = pytest.mark.parametrize("kind", KINDS, ids=["inline", "thread", "process", "deep"])


def clips(films: Films, per_video: int = 12, size: tuple[int, int] = (32, 64)) -> ClipDataset:
    sampler = RandomClips(num_frames=4, stride=2, clips_per_video=per_video)
    return ClipDataset(films.index("h264"), sampler, RandomResizedCrop(size), "pyav")


def content(batch: Batch) -> int:
    """A number that depends on each pixel and its place, computed where the batch is."""
    flat = batch.video.permute(0, 2, 3, 4, 1).reshape(-1).to(torch.int64)
    weights = torch.arange(len(flat), device=flat.device) % 8191 + 1
    return (flat * weights).sum()  # type: ignore[return-value]


@pytest.fixture
def expected(films: Films) -> list[int]:
    """Of two epochs' batches on the host."""
    with VideoLoader(clips(films), 4, shuffle=True, seed=3, num_workers=0) as loader:
        return [int(content(batch)) for _ in range(2) for batch in loader]


@every_kind
def test_batches_are_those_of_the_host(kind: dict[str, Any], films: Films, expected: list[int]) -> None:
    with VideoLoader(clips(films), 4, shuffle=True, seed=3, device="cuda", **kind) as loader:
        batches = [batch for _ in range(2) for batch in loader]
    assert all(tensor.is_cuda for tensor in tensors_of(batches[0]))
    assert [int(content(batch)) for batch in batches] == expected


@every_kind
def test_the_current_stream_may_be_any(kind: dict[str, Any], films: Films, expected: list[int]) -> None:
    found = []
    with VideoLoader(clips(films), 4, shuffle=True, seed=3, device="cuda", **kind) as loader:
        for epoch in range(2):
            with torch.cuda.stream(torch.cuda.Stream()) if epoch else torch.cuda.stream(None):
                found += [content(batch) for batch in loader]
    assert [int(number) for number in found] == expected


def test_batches_read_late_on_another_stream_are_right(films: Films) -> None:
    """The copying stream goes on all the while, and the consumer's is always behind."""
    dataset = clips(films, per_video=100)
    epochs = RACE_STEPS * 2 // 100
    with VideoLoader(dataset, 2, shuffle=True, seed=7, num_workers=0) as loader:
        right = [int(content(batch)) for _ in range(epochs) for batch in loader]
    other, kept, found = torch.cuda.Stream(), deque[Batch](maxlen=7), []
    with VideoLoader(
        dataset, 2, shuffle=True, seed=7, device="cuda", worker_kind="thread", device_prefetch=3, prefetch_batches=4
    ) as loader:
        for _ in range(epochs):
            for batch in loader:
                kept.append(batch)
                torch.cuda._sleep(100_000)  # type: ignore[no-untyped-call]
                if len(kept) == kept.maxlen:
                    other.wait_stream(torch.cuda.current_stream())
                    with torch.cuda.stream(other):
                        found.append(content(kept[0]))
                        kept[0].video.record_stream(other)
    torch.cuda.synchronize()
    assert len(found) >= RACE_STEPS - kept.maxlen
    assert [int(number) for number in found] == right[: len(found)]


def test_memory_of_a_batch_let_go_of_is_not_given_away_before_its_stream_is_done(films: Films) -> None:
    """Each batch is dropped while the work that reads it still waits behind a long kernel."""
    dataset = clips(films, per_video=100)
    with VideoLoader(dataset, 2, seed=1, num_workers=0) as loader:
        right = [int(content(batch)) for batch in loader]
    found = []
    with VideoLoader(dataset, 2, seed=1, device="cuda", worker_kind="thread", device_prefetch=4) as loader:
        for batch in loader:
            torch.cuda._sleep(20_000_000)  # type: ignore[no-untyped-call]
            found.append(content(batch))
            del batch
    assert [int(number) for number in found] == right


def test_the_host_does_not_wait_for_the_device(films: Films) -> None:
    with VideoLoader(clips(films), 4, seed=1, device="cuda", worker_kind="thread", prefetch_batches=4) as loader:
        iterator = iter(loader)
        next(iterator)
        time.sleep(1)  # the others are loaded
        torch.cuda._sleep(2_000_000_000)  # type: ignore[no-untyped-call]
        start = time.monotonic()
        next(iterator)
        waited = time.monotonic() - start
        assert not torch.cuda.current_stream().query()  # the kernel is still at it
        assert waited < 0.1
        torch.cuda.synchronize()


def test_graphs_may_be_captured_while_it_loads(films: Films, expected: list[int]) -> None:
    transform = DeviceTransform(mean=(0.4, 0.5, 0.6), std=(0.2, 0.2, 0.2))
    with VideoLoader(
        clips(films), 4, shuffle=True, seed=3, device="cuda", prefetch_batches=4, device_transform=transform
    ) as loader:
        iterator = iter(loader)
        static = next(iterator).video.clone()
        sums = [static.double().sum()]
        for _ in range(5):  # while batches are copied and transformed
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = static.double().sum()
        for batch in iterator:
            static.copy_(batch.video)
            graph.replay()
            sums.append(result.clone())
            assert torch.equal(result, batch.video.double().sum())
    with VideoLoader(clips(films), 4, shuffle=True, seed=3, num_workers=0, device_transform=transform) as loader:
        host = [batch.video.double().sum() for batch in loader]
    torch.testing.assert_close(torch.stack(sums).cpu(), torch.stack(host), rtol=1e-5, atol=1e-2)


def test_several_loaders_in_one_process(films: Films, expected: list[int]) -> None:
    def make(seed: int) -> VideoLoader:
        return VideoLoader(clips(films), 4, shuffle=True, seed=seed, device="cuda", num_workers=1)

    with make(3) as first, make(4) as second:
        found = []
        for _ in range(2):
            for one, _other in zip(first, second, strict=True):
                found.append(int(content(one)))
    assert found == expected


def test_a_second_device(films: Films, expected: list[int]) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one CUDA device")
    with VideoLoader(clips(films), 4, shuffle=True, seed=3, device="cuda:1") as loader:
        batches = [batch for _ in range(2) for batch in loader]
    assert batches[0].video.device.index == 1
    assert [int(content(batch)) for batch in batches] == expected
    assert torch.cuda.current_device() == 0


def test_no_worker_loads_the_driver(films: Films) -> None:
    with VideoLoader(clips(films), 4, device="cuda", num_workers=2) as loader:
        next(iter(loader))
        workers = children()
        assert len(workers) == 2
        for worker in workers:
            mapped = Path(f"/proc/{worker}/maps").read_text()
            assert "libcuda" not in mapped
            assert "/dev/nvidia" not in mapped
        assert "libcuda" in Path(f"/proc/{os.getpid()}/maps").read_text()


def test_slots_are_pinned(films: Films, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = []
    pin = Accelerator.pin

    def spy(self: Accelerator, mapping: Mapping) -> None:
        pin(self, mapping)
        pinned.append(torch.from_numpy(mapping.array((mapping.size,))).is_pinned())

    monkeypatch.setattr(Accelerator, "pin", spy)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with VideoLoader(clips(films), 4, device="cuda", num_workers=2) as loader:
            for _ in range(3):
                for _ in loader:
                    pass
    assert pinned
    assert all(pinned)
    assert len(pinned) <= loader.prefetch_batches + 2


def test_what_cannot_be_pinned_is_copied_all_the_same(
    films: Films, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda.cudart(), "cudaHostRegister", lambda *_: 1)  # type: ignore[no-untyped-call]
    monkeypatch.setattr(cuda, "_unpinned", set())
    loader = VideoLoader(clips(films), 4, shuffle=True, seed=3, device="cuda", num_workers=0)
    with pytest.warns(RuntimeWarning, match="can't be registered with CUDA") as said, loader:
        found = [int(content(batch)) for _ in range(2) for batch in loader]
    assert found == expected
    assert len(said) == 1


def test_what_is_on_the_device_is_let_go_of(films: Films) -> None:
    with VideoLoader(clips(films), 4, device="cuda", num_workers=2) as loader:
        next(iter(loader))  # whatever is made once
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    with VideoLoader(clips(films), 4, device="cuda", num_workers=2) as loader:
        for _ in range(5):
            for _batch in loader:
                pass
        del _batch
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before
