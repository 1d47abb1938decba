"""Whatever goes wrong is raised where its batch would have come, in words that say what to do."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import IterableDataset

import vidload
from tests.films import FilmFolder
from tests.loader.datasets import Failing, LoadsNowhere, Mapped, Numbers, Signalled
from tests.loader.processes import children
from vidload import ClipDataset, VideoLoader
from vidload.errors import (
    ArgumentError,
    DecodeError,
    LoaderClosedError,
    SampleError,
    SendError,
    StaleIndexError,
    WorkerError,
)

KINDS = [(0, "thread"), (2, "thread"), (2, "process")]
each_kind = pytest.mark.parametrize(("num_workers", "worker_kind"), KINDS)


@pytest.fixture
def copied(film_file: FilmFolder, tmp_path: Path) -> tuple[ClipDataset, Path]:
    """Six clips of three films, and the second film."""
    films = [Path(shutil.copy(film_file("h264_bframes"), tmp_path / f"{name}.mp4")) for name in "abc"]
    vidload.build_index(films, tmp_path / "index", num_workers=0).close()
    clips = vidload.UniformClips(4, stride=2, clips_per_video=2)
    return ClipDataset(tmp_path / "index", clips=clips, size=(16, 32), decoder="pyav"), films[1]


def damage(film: Path) -> None:
    """Overwrite what packets there are, and leave size and time as they were."""
    stat = film.stat()
    data = bytearray(film.read_bytes())
    start = data.index(b"mdat") + 4
    data[start + 8 : start + 20_000] = b"\xa5" * len(data[start + 8 : start + 20_000])
    film.write_bytes(data)
    os.utime(film, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def take_until_error(loader: VideoLoader, kind: type[Exception]) -> tuple[list[Any], Any]:
    got: list[Any] = []
    with pytest.raises(kind) as caught:
        got.extend(loader)  # keeps what came before the error
    return got, caught.value


@each_kind
def test_a_film_that_changed_is_an_error_at_its_batchs_turn(
    copied: tuple[ClipDataset, Path], num_workers: int, worker_kind: Any
) -> None:
    clips, film = copied
    film.write_bytes(film.read_bytes() + b"more")
    with VideoLoader(clips, 1, num_workers=num_workers, worker_kind=worker_kind, prefetch_batches=4) as loader:
        got, error = take_until_error(loader, StaleIndexError)
        assert [batch.step for batch in got] == [0, 1]
        assert str(film) in str(error)
        # The epoch is over with it; the next one comes to the same place.
        got, _ = take_until_error(loader, StaleIndexError)
        assert [(batch.epoch, batch.step) for batch in got] == [(1, 0), (1, 1)]


@each_kind
def test_frames_that_cannot_be_decoded_are_named(
    copied: tuple[ClipDataset, Path], num_workers: int, worker_kind: Any
) -> None:
    clips, film = copied
    damage(film)
    with VideoLoader(clips, 2, num_workers=num_workers, worker_kind=worker_kind) as loader:
        got, error = take_until_error(loader, DecodeError)
        assert [batch.step for batch in got] == [0]
        assert re.match(rf"{re.escape(str(film))}: frames? \d.*\(decoder pyav\)", str(error))


@each_kind
def test_an_iterator_ends_with_an_error(num_workers: int, worker_kind: Any) -> None:
    with VideoLoader(
        Mapped(3, lambda sample: 1 // sample), num_workers=num_workers, worker_kind=worker_kind, collate_fn=list
    ) as loader:
        iterator = iter(loader)
        with pytest.raises(SampleError):
            next(iterator)
        with pytest.raises(StopIteration):
            next(iterator)


@each_kind
def test_an_error_in_a_data_set_carries_its_traceback(num_workers: int, worker_kind: Any) -> None:
    with VideoLoader(
        Failing(6, at=4), 2, num_workers=num_workers, worker_kind=worker_kind, collate_fn=list, prefetch_batches=4
    ) as loader:
        got, error = take_until_error(loader, SampleError)
    assert got == [[0, 1], [2, 3]]
    assert str(error).startswith("sample 4 in step 2 of epoch 0 raised KeyError: 'no such thing'\n")
    assert "in __getitem__\n    raise KeyError" in str(error)


@each_kind
def test_an_error_in_a_collate_fn_carries_its_traceback(num_workers: int, worker_kind: Any) -> None:
    def collate(samples: list[int]) -> int:
        return 1 // samples[0] if samples[0] else 0 // samples[0]

    with VideoLoader(Numbers(4), 2, num_workers=num_workers, worker_kind=worker_kind, collate_fn=collate) as loader:
        _, error = take_until_error(loader, SampleError)
    assert str(error).startswith("collating step 0 of epoch 0 raised ZeroDivisionError: ")
    assert "in collate\n" in str(error)


@pytest.mark.parametrize(("num_workers", "worker_kind"), [(1, "thread"), (1, "process")])
def test_an_error_in_a_transform_is_one_of_the_sample(clips: ClipDataset, num_workers: int, worker_kind: Any) -> None:
    def transform(clip: vidload.Clip) -> Any:
        raise MyDecodeError("mine")

    class MyDecodeError(DecodeError):
        """Of the user's own script, which no other process can import."""

    clips.transform = transform
    with VideoLoader(clips, 2, num_workers=num_workers, worker_kind=worker_kind) as loader:
        _, error = take_until_error(loader, SampleError)
    assert "sample 0 in step 0 of epoch 0 raised MyDecodeError: mine" in str(error)


def test_a_sample_that_cannot_be_sent_is_an_error() -> None:
    with VideoLoader(Mapped(2, lambda _: threading.Lock()), num_workers=1, collate_fn=list) as loader:
        _, error = take_until_error(loader, SampleError)
    assert "sample 0 in step 0 of epoch 0 raised TypeError: cannot pickle" in str(error)


def test_a_batch_that_cannot_be_loaded_is_an_error() -> None:
    class OnlyInWorkers:
        def __init__(self, loader: int) -> None:
            self.loader = loader

        def __setstate__(self, state: dict[str, int]) -> None:
            if os.getpid() == state["loader"]:
                raise RuntimeError("not here")
            self.__dict__.update(state)

    here = os.getpid()
    with VideoLoader(Mapped(2, lambda _: OnlyInWorkers(here)), num_workers=1, collate_fn=list) as loader:
        _, error = take_until_error(loader, SampleError)
    assert "the batch of step 0 of epoch 0 can't be made of what came from workers: RuntimeError: not here" in str(
        error
    )


def test_a_data_set_that_cannot_be_sent_is_refused_at_once() -> None:
    dataset = Numbers(3)
    dataset.lock = threading.Lock()  # type: ignore[attr-defined]
    before = children()
    with pytest.raises(SendError, match=r"data set 'Numbers'.*can't be sent.*lock.*worker_kind='thread'"):
        VideoLoader(dataset, num_workers=1)
    assert children() == before
    with VideoLoader(dataset, num_workers=1, worker_kind="thread", collate_fn=list) as loader:
        assert len(list(loader)) == 3


def test_a_data_set_that_cannot_be_loaded_is_an_error_with_its_reason() -> None:
    with VideoLoader(LoadsNowhere(3), num_workers=2) as loader:
        _, error = take_until_error(loader, WorkerError)
        assert "can't load the data set: ModuleNotFoundError: No module named 'a_module_that_workers_miss'" in str(
            error
        )
        assert "in _import_missing" in str(error)
        take_until_error(loader, WorkerError)  # it stays so
    with pytest.raises(LoaderClosedError):
        iter(loader)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_worker_that_dies_is_named_with_signal_pid_and_sample(number: signal.Signals) -> None:
    with VideoLoader(
        Signalled(6, at=4, signal=number), 2, num_workers=1, collate_fn=list, prefetch_batches=3
    ) as loader:
        got, error = take_until_error(loader, WorkerError)
        assert got == [[0, 1], [2, 3]]
        assert re.match(
            rf"worker process 0 \(pid \d+\) was ended by {number.name}.* at step 2 of epoch 0, sample 4; another",
            str(error),
        )


@pytest.mark.parametrize("worker_kind", ["thread", "process"])
def test_sys_exit_in_a_data_set_is_no_hang(worker_kind: Any) -> None:
    with VideoLoader(Mapped(3, sys.exit), num_workers=1, worker_kind=worker_kind, collate_fn=list) as loader:
        _, error = take_until_error(loader, WorkerError)
    assert "at step 0 of epoch 0, sample 0" in str(error)


class Stream(IterableDataset[int]):
    """Has a length, and still no items."""

    def __iter__(self) -> Any:
        return iter(range(10))

    def __len__(self) -> int:
        return 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size=0: give an integer of at least 1"),
        ({"batch_size": 1.5}, "batch_size=1.5: give an integer"),
        ({"batch_size": True}, "batch_size=True: give an integer"),
        ({"num_workers": -1}, "num_workers=-1: give an integer of at least 0"),
        ({"epochs": 0}, "epochs=0: give an integer of at least 1"),
        ({"prefetch_batches": 0}, "prefetch_batches=0: give an integer of at least 1"),
        ({"seed": -1}, "seed=-1: give an integer from 0"),
        ({"worker_kind": "fiber"}, "worker_kind='fiber': there are 'process' and 'thread'"),
        ({"device": "meta"}, "device='meta': the accelerator that torch .* can use here is"),
        ({"device": "gpu"}, "device='gpu': Expected one of cpu, cuda"),
        ({"device": 1.5}, "device=1.5: "),
        ({"device_prefetch": 0}, "device_prefetch=0: give an integer of at least 1"),
        ({"device_transform": 1}, "device_transform=1: give a function, or None"),
        ({"collate_fn": "stack"}, "collate_fn='stack': give a function, or None"),
        ({"trace": []}, r"trace=\[\]: give a function, or None"),
        ({"dataset": Stream()}, "give a map-style data set"),
        ({"dataset": iter([1])}, "give a map-style data set"),
        ({"dataset": 5}, "dataset=5: give a map-style data set"),
        ({"dataset": []}, "num_samples=0: the data set is empty"),
        ({"drop_last": True, "batch_size": 4}, "drop_last=True with batch_size=4 leaves nothing of 3 samples"),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("num_workers", [0, 1])
def test_arguments_that_cannot_work_are_refused(arguments: dict[str, Any], message: str, num_workers: int) -> None:
    before = children()
    with pytest.raises(ArgumentError, match=message):
        VideoLoader(**{"dataset": Numbers(3), "num_workers": num_workers, **arguments})
    assert children() == before


def test_a_collate_fn_for_clips_in_place_is_refused_with_the_way_out(clips: ClipDataset) -> None:
    with pytest.raises(ArgumentError, match=r"collate_fn: clips of one shape .* give the ClipDataset a transform"):
        VideoLoader(clips, collate_fn=list)
    clips.transform = lambda clip: clip
    with VideoLoader(clips, 2, num_workers=0, collate_fn=len) as loader:
        assert list(loader) == [2] * 5


def test_integers_of_numpy_and_torch_are_integers() -> None:
    count = torch.tensor(2)
    with VideoLoader(Numbers(4), count, num_workers=0, epochs=count, collate_fn=list) as loader:  # type: ignore[arg-type]
        assert list(loader) == [[0, 1], [2, 3]]
    assert type(loader.batch_size) is type(loader.epochs) is int
