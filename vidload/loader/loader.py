"""`VideoLoader`: a stream of batches that happens to have epoch marks."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Literal, get_args

import cloudpickle
from torch.utils.data import IterableDataset

from vidload.clips.random import check_word
from vidload.clips.schedule import Schedule
from vidload.dataset import ClipDataset
from vidload.errors import ArgumentError, EpochsExhaustedError, LoaderClosedError, SendError, VidloadError
from vidload.loader.assembly import Assembly, ClipAssembly, SampleAssembly
from vidload.loader.inline import InlinePipeline
from vidload.loader.pipeline import END, Pipeline
from vidload.loader.pool import Pool
from vidload.loader.prefetch import PrefetchPipeline
from vidload.loader.processes import ProcessPool
from vidload.loader.runner import Runner
from vidload.loader.scheduler import Scheduler
from vidload.loader.span import Span
from vidload.loader.threads import ThreadPool

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
        batch_size = _count("batch_size", batch_size, 1)
        num_workers = _count("num_workers", num_workers, 0)
        if epochs is not None:
            epochs = _count("epochs", epochs, 1)
        if prefetch_batches is not None:
            prefetch_batches = _count("prefetch_batches", prefetch_batches, 1)
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
        self._current: weakref.ref[_EpochIterator] | None = None
        self._pipeline = self._make_pipeline(collate_fn, in_order, trace)
        # Before anything is started, so that Ctrl-C from here on leaves nothing behind.
        self._finalizer = weakref.finalize(self, self._pipeline.close)
        self._pipeline.start()

    def _make_pipeline(
        self,
        collate_fn: Callable[[list[Any]], Any] | None,
        in_order: bool,
        trace: Callable[[Span], None] | None,
    ) -> Pipeline:
        dataset = self.dataset
        in_processes = self.num_workers > 0 and self.worker_kind == "process"
        assembly: Assembly
        if isinstance(dataset, ClipDataset) and dataset.clip_shape is not None and dataset.transform is None:
            if collate_fn is not None:
                raise ArgumentError(
                    "collate_fn: clips of one shape are decoded where the batch lies, so there is nothing to collate; "
                    "leave it out, or give the ClipDataset a transform (the identity will do) to get samples"
                )
            assembly = ClipAssembly(dataset, self.batch_size, self.seed)
        else:
            assembly = SampleAssembly(self.batch_size, self.seed, packed=in_processes)
        runner = Runner(dataset, collate_fn)
        if self.num_workers == 0:
            return InlinePipeline(self._schedule, runner, assembly, trace=trace)
        size = self.num_workers
        pool: Pool = ProcessPool(_pickled(runner), size) if in_processes else ThreadPool(runner, size)
        scheduler = Scheduler(self._schedule, self.epochs, pool, assembly, depth=self.prefetch_batches, trace=trace)
        return PrefetchPipeline(scheduler, len(self), in_order=in_order, trace=trace)

    def __len__(self) -> int:
        """Batches per epoch."""
        return self._schedule.steps_per_epoch

    def __iter__(self) -> Iterator[Any]:
        """Begin the next epoch; what is left of the one before is given up.

        An epoch of which no batch was taken is still to come.

        Raises:
            EpochsExhaustedError: If `epochs` have been given already.
            LoaderClosedError: If the loader is closed.
        """
        epoch, taken = self._pipeline.position
        if taken:
            epoch += 1
        if self.epochs is not None and epoch >= self.epochs:
            raise EpochsExhaustedError(
                f"the loader was made for epochs={self.epochs}, and has given them all; make it with more, or without "
                "epochs="
            )
        if self._pipeline.closed:
            raise LoaderClosedError("the loader was closed; make a new one to go on")
        previous = self._current() if self._current is not None else None
        if previous is not None:
            previous.replaced = True
        self._pipeline.begin(epoch)
        iterator = _EpochIterator(self, epoch)
        self._current = weakref.ref(iterator)
        return iterator

    def close(self) -> None:
        """End the workers. Batches that were yielded stay as they are."""
        self._pipeline.close()
        self._finalizer.detach()

    def __enter__(self) -> VideoLoader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _EpochIterator(Iterator[Any]):
    """One epoch's batches. Holds the loader, so that ``for batch in VideoLoader(...)`` keeps it alive."""

    _loader: VideoLoader | None = None  # for `__del__`, should Ctrl-C hit `__init__`

    def __init__(self, loader: VideoLoader, epoch: int) -> None:
        self._epoch = epoch
        self._begun = False
        self.replaced = False
        self._loader = loader

    def __next__(self) -> Any:
        loader = self._loader
        if loader is None:
            raise StopIteration
        if self.replaced:
            raise LoaderClosedError(
                f"this loop over epoch {self._epoch} was ended by a later one over the same loader; make a loader for "
                "each of two loops at a time"
            )
        self._begun = True
        try:
            batch = loader._pipeline.take()
        except VidloadError:
            self._leave()
            raise
        if batch is END:
            self._leave()
            raise StopIteration
        return batch

    def _leave(self) -> None:
        loader, self._loader = self._loader, None
        if loader is None or self.replaced or not self._begun:
            return
        if loader._pipeline.position > (self._epoch, 0):  # an epoch of which nothing was taken is still to come
            loader._pipeline.leave(self._epoch)

    def __del__(self) -> None:
        self._leave()


def _count(name: str, value: int, least: int) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        count = least - 1
    if isinstance(value, bool) or count < least:
        raise ArgumentError(f"{name}={value!r}: give an integer of at least {least}")
    return count


def _length(dataset: Any) -> int:
    map_style = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    if not map_style or isinstance(dataset, IterableDataset):
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
