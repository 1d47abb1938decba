"""`VideoLoader`: a stream of batches that happens to have epoch marks."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Literal, get_args

import cloudpickle
import numpy as np
import numpy.typing as npt

from vidload.clips.random import check_word
from vidload.clips.schedule import Schedule
from vidload.dataset import ClipDataset
from vidload.errors import ArgumentError, EpochsExhaustedError, LoaderClosedError, SendError, VidloadError
from vidload.loader.assembly import Assembly, ClipAssembly, SampleAssembly
from vidload.loader.pipeline import END, Pipeline
from vidload.loader.pools import CallerPool, Pool, ProcessPool, ThreadPool
from vidload.loader.runner import Runner
from vidload.loader.span import Span

__all__ = ["VideoLoader", "WorkerKind"]

WorkerKind = Literal["process", "thread"]


class VideoLoader:
    """Loads batches of a data set, ahead of time and across epochs.

    Workers start when the loader is made, and so does loading. One loop over it is one epoch; the first batches of the
    next are loaded while the last ones of this are used, so no epoch's first batch is waited for. With `epochs` nothing
    beyond the last sample is loaded; without, at most `prefetch_batches` batches are loaded in vain. Leaving an epoch
    early (`break`, an exception) cancels what isn't yet loaded of it, and the next loop is the next epoch.

        for epoch in range(90):
            for batch in loader:
                ...

    The order of samples, and what is random in clips, depend on `seed` and the epoch alone, not on workers.

    Args:
        dataset: A `ClipDataset`, for which batches are `Batch`; or any map-style data set (`__len__` and
            `__getitem__`), for which they are what `collate_fn` makes of the samples.
        batch_size: Samples per batch.
        epochs: How many epochs the run has, or None for no end.
        num_workers: How many workers; 0 loads in the caller when a batch is asked for, for debugging.
        worker_kind: ``"process"`` (a decoder that crashes costs one worker, not the run) or ``"thread"``.
        prefetch_batches: Batches that are loaded ahead of the one in use; by default 2, or what it takes to give every
            worker two samples.
        shuffle: Whether each epoch has a random order of its own.
        drop_last: Whether to leave out an epoch's last batch where it would be smaller than the others.
        seed: Seed of the order and of the clips' random numbers, 0 to 2**64 - 1.
        in_order: Whether batches come in the schedule's order whatever the number of workers, or as they are finished
            (those of one epoch never after the next one's).
        collate_fn: Makes a batch of a list of samples, in a worker; by default torch's ``default_collate``. Not for a
            `ClipDataset` whose clips have one shape, which are decoded where the batch lies.
        device: ``"cpu"``.
        trace: Called with every `Span` of time spent on reading, decoding and waiting, from the scheduler's or the
            consumer's thread.

    Raises:
        ArgumentError: If an argument can't work.
        SendError: If the data set or `collate_fn` can't be sent to a worker process.

    Errors in loading are raised where their batch would have been yielded: `DecodeError` and `StaleIndexError` from
    clips, `SampleError` from a user's code, `WorkerError` where a worker died.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        *,
        epochs: int | None = None,
        num_workers: int = 2,
        worker_kind: WorkerKind = "process",
        prefetch_batches: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        in_order: bool = True,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        device: str = "cpu",
        trace: Callable[[Span], None] | None = None,
    ) -> None:
        _check_count("batch_size", batch_size, 1)
        _check_count("num_workers", num_workers, 0)
        if epochs is not None:
            _check_count("epochs", epochs, 1)
        if prefetch_batches is not None:
            _check_count("prefetch_batches", prefetch_batches, 1)
        if worker_kind not in get_args(WorkerKind):
            raise ArgumentError(
                f"worker_kind={worker_kind!r}: there are {' and '.join(map(repr, get_args(WorkerKind)))}"
            )
        if str(device) != "cpu":
            raise ArgumentError(f"device={device!r}: this version gives batches on 'cpu'; move them with .to(device)")
        for name, function in (("collate_fn", collate_fn), ("trace", trace)):
            if function is not None and not callable(function):
                raise ArgumentError(f"{name}={function!r}: give a function, or None")
        self.dataset = dataset
        self.batch_size = batch_size
        self.epochs = epochs
        self.num_workers = num_workers
        self.worker_kind: WorkerKind = worker_kind
        self.prefetch_batches = prefetch_batches or max(2, -(-2 * num_workers // batch_size))
        self.seed = check_word("seed", seed)
        self._schedule = Schedule(_length(dataset), batch_size, self.seed, shuffle, drop_last)
        self._next_epoch = 0
        self._current: weakref.ref[_EpochIterator] | None = None
        in_place = isinstance(dataset, ClipDataset) and dataset.clip_shape is not None and dataset.transform is None
        if in_place and collate_fn is not None:
            raise ArgumentError(
                "collate_fn: clips of one shape are decoded where the batch lies, so there is nothing to collate; "
                "leave it out, or give the ClipDataset a transform (the identity will do) to get samples"
            )
        runner = Runner(dataset, collate_fn)
        in_processes = num_workers > 0 and worker_kind == "process"
        assembly: Assembly
        if in_place:
            assembly = ClipAssembly(dataset, batch_size, self.seed)
        else:
            assembly = SampleAssembly(batch_size, self.seed, packed=in_processes)
        pipeline: Pipeline

        def memory(slot: int) -> npt.NDArray[np.uint8]:
            return pipeline.memory(slot, (batch_size, *dataset.clip_shape))

        pool: Pool
        if in_processes:
            pool = ProcessPool(_pickled(runner), num_workers)
        elif num_workers:
            pool = ThreadPool(runner, memory, num_workers)
        else:
            pool = CallerPool(runner, memory)
        pipeline = Pipeline(
            self._schedule,
            epochs,
            pool,
            assembly,
            depth=self.prefetch_batches if num_workers else 1,
            in_order=in_order,
            threaded=num_workers > 0,
            trace=trace,
        )
        pipeline.start()
        self._pipeline = pipeline
        self._finalizer = weakref.finalize(self, pipeline.close)

    def __len__(self) -> int:
        """Batches per epoch."""
        return self._schedule.steps_per_epoch

    def __iter__(self) -> Iterator[Any]:
        """Begin the next epoch; what is left of the one before is given up.

        Raises:
            EpochsExhaustedError: If `epochs` have been given already.
            LoaderClosedError: If the loader is closed.
        """
        if self.epochs is not None and self._next_epoch >= self.epochs:
            raise EpochsExhaustedError(
                f"the loader was made for epochs={self.epochs}, and has given them all; make it with more, or without "
                "epochs="
            )
        if not self._finalizer.alive:
            raise LoaderClosedError("the loader was closed; make a new one to go on")
        previous = self._current() if self._current is not None else None
        if previous is not None:
            previous.close()
        iterator = _EpochIterator(self, self._next_epoch)
        self._current = weakref.ref(iterator)
        return iterator

    def _leave(self, epoch: int) -> None:
        """The consumer is done with an epoch, however that came."""
        self._next_epoch = epoch + 1
        if self.epochs is not None and self._next_epoch >= self.epochs:
            self._pipeline.close(wait=False)
        elif self._finalizer.alive:
            self._pipeline.begin(self._next_epoch)

    def close(self) -> None:
        """End the workers. Batches that were yielded stay as they are."""
        self._finalizer()

    def __enter__(self) -> VideoLoader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _EpochIterator(Iterator[Any]):
    """One epoch's batches. Holds the loader, so that ``for batch in VideoLoader(...)`` keeps it alive."""

    def __init__(self, loader: VideoLoader, epoch: int) -> None:
        self._loader: VideoLoader | None = loader
        self._epoch = epoch
        self._begun = False

    def __next__(self) -> Any:
        loader = self._loader
        if loader is None:
            raise StopIteration
        self._begun = True
        try:
            batch = loader._pipeline.take()
        except VidloadError:
            self.close()
            raise
        if batch is END:
            self.close()
            raise StopIteration
        return batch

    def close(self) -> None:
        """End this epoch; one of which nothing was asked for is still to come."""
        loader, self._loader = self._loader, None
        if loader is not None and self._begun:
            loader._leave(self._epoch)

    def __del__(self) -> None:
        self.close()


def _check_count(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(f"{name}={value!r}: give an integer of at least {least}")


def _length(dataset: Any) -> int:
    if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
        raise ArgumentError(
            f"dataset={dataset!r}: give a map-style data set, one with __len__ and __getitem__ (iterable ones have no "
            "order to prefetch by)"
        )
    return len(dataset)


def _pickled(runner: Runner) -> bytes:
    try:
        data = cloudpickle.dumps(runner, protocol=5)
    except Exception as error:
        raise SendError(
            f"the data set {type(runner.dataset).__name__!r} (or its transform, or collate_fn) can't be sent to a "
            f"worker process: {error}. Open files, locks and connections in __getitem__ rather than in __init__, or "
            "use worker_kind='thread'"
        ) from error
    return bytes(data)
