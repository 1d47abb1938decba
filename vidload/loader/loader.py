"""`VideoLoader`: a stream of batches that happens to have epoch marks."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from vidload.clips.order import Order
from vidload.clips.random import check_word
from vidload.clips.schedule import Schedule
from vidload.dataset import ClipDataset
from vidload.errors import ArgumentError, EpochsExhaustedError
from vidload.loader.arguments import check_count, check_length, sampler_order
from vidload.loader.build import Parts, make_pipeline
from vidload.loader.chrome import ChromeTrace
from vidload.loader.device import make_device
from vidload.loader.faults import OnError
from vidload.loader.iterator import EpochIterator
from vidload.loader.pipeline import Pipeline, Position
from vidload.loader.ranks import find_ranks
from vidload.loader.span import Span
from vidload.loader.state import check_state, make_state
from vidload.loader.stats import Stats
from vidload.loader.tuning import AUTO, measure_cost, tune
from vidload.transforms.pixels import DeviceTransform
from vidload.transforms.planar import Wire, check_wire

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
        batch_size: Samples per batch, on each rank.
        epochs: How many epochs the run has, or None for no end.
        num_workers: How many workers; 0 loads in the caller when a batch is asked for, for debugging. ``"auto"``
            chooses by what a few samples cost, the cores and the memory there are; `tuning` and the log say why.
        worker_kind: ``"process"`` (a decoder that crashes costs one worker, not the run) or ``"thread"``.
        prefetch_batches: Batches that are loaded ahead of the one in use; by default 2, or what it takes to give every
            worker two samples. ``"auto"`` looks at how long slow samples take, too, and at the memory there is.
        shuffle: Whether each epoch has a random order of its own.
        drop_last: Whether to leave out an epoch's last batch where it would be smaller than the others. Without, and
            with several ranks, samples are repeated to make their last batches equally large, and marked as such in
            `Batch.repeated` and `VideoLoader.repeated`.
        seed: Seed of the order and of the clips' random numbers, 0 to 2**64 - 1.
        in_order: Whether batches come in the schedule's order whatever the number of workers, or as they are finished
            (those of one epoch never after the next one's).
        sampler: Gives the order of samples in place of `shuffle`, iterated anew for each epoch; its
            ``set_epoch(epoch)`` is called first where it has one. It deals with ranks itself.
        batch_sampler: Gives lists of samples, in place of `batch_size`, `shuffle`, `drop_last` and `sampler`.
        collate_fn: Makes a batch of a list of samples, in a worker; by default torch's ``default_collate``. Not for a
            `ClipDataset` whose clips have one shape, which are decoded where the batch lies.
        worker_init_fn: Called with a worker's number when it starts; see also `vidload.get_worker_info`.
        on_error: ``"raise"`` raises a sample's error where its batch would have been yielded; ``"replace"`` loads
            another sample in its place, drawn from the schedule's own numbers, so the same in every run.
        max_error_rate: With ``on_error="replace"``, the largest share of errors among the samples tried, counted from
            100 samples on; beyond, the run ends with `ErrorRateExceeded`.
        error_log: With ``on_error="replace"``, the file that gets a line of JSON for each error; None for none.
        clip_timeout: Seconds that a worker may take for one sample; one that takes longer is replaced. None: no limit.
        rank: Which of the ranks this is; by default torch.distributed's, else torchrun's, else 0.
        world_size: How many ranks there are; likewise, else 1.
        device: Where batches are given: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, or another accelerator of torch's. They
            are copied ahead of time, on a stream of their own; the consumer's current stream waits for them, the host
            doesn't. All tensors of a batch go there.
        device_prefetch: Batches that are copied ahead of the one in use, of the `prefetch_batches` that are loaded.
        device_transform: A `DeviceTransform`, for clips; or a function that is called with each batch and returns what
            is given instead. Either works on the device, in the loader's thread and stream, so ahead of time; with
            ``num_workers=0`` in yours.
        wire: How clips travel: ``"rgb"``, or ``"yuv420"`` for half the bytes (shared memory and transfer) and no
            colours made on the CPU; the device makes them.
        trace: Called with every `Span` of time spent on reading, decoding and waiting, from the scheduler's or the
            consumer's thread.

    Raises:
        ArgumentError: If an argument can't work.
        SendError: If the data set or a function can't be sent to a worker process.

    Errors in loading are raised where their batch would have been yielded: `DecodeError` and `StaleIndexError` from
    clips, `SampleError` from a user's code, `WorkerError` for a sample that two workers died of or hung on. A worker
    that dies or hangs otherwise is replaced, and its samples are loaded by another.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        *,
        epochs: int | None = None,
        num_workers: int | Literal["auto"] = 2,
        worker_kind: WorkerKind = "process",
        prefetch_batches: int | Literal["auto"] | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        in_order: bool = True,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        worker_init_fn: Callable[[int], Any] | None = None,
        on_error: OnError = "raise",
        max_error_rate: float = 0.05,
        error_log: str | os.PathLike[str] | None = "errors.jsonl",
        clip_timeout: float | None = 300.0,
        rank: int | None = None,
        world_size: int | None = None,
        device: str | torch.device = "cpu",
        device_prefetch: int = 2,
        device_transform: Callable[[Any], Any] | DeviceTransform | None = None,
        wire: Wire = "rgb",
        trace: Callable[[Span], None] | None = None,
    ) -> None:
        batch_size = check_count("batch_size", batch_size, 1)
        workers = None if num_workers == AUTO else check_count("num_workers", num_workers, 0)
        if epochs is not None:
            epochs = check_count("epochs", epochs, 1)
        ahead: int | None = 0  # for the default
        if prefetch_batches is not None:
            ahead = None if prefetch_batches == AUTO else check_count("prefetch_batches", prefetch_batches, 1)
        if worker_kind not in get_args(WorkerKind):
            raise ArgumentError(
                f"worker_kind={worker_kind!r}: there are {' and '.join(map(repr, get_args(WorkerKind)))}"
            )
        if clip_timeout is not None and not clip_timeout > 0:
            raise ArgumentError(f"clip_timeout={clip_timeout!r}: give seconds above 0, or None for no limit")
        device_prefetch = check_count("device_prefetch", device_prefetch, 1)
        check_wire(wire)
        functions = {
            "collate_fn": collate_fn,
            "worker_init_fn": worker_init_fn,
            "device_transform": device_transform,
            "trace": trace,
        }
        for name, function in functions.items():
            if function is not None and not callable(function):
                raise ArgumentError(f"{name}={function!r}: give a function, or None")
        length = check_length(dataset)
        self.tuning: str | None = None
        """Why "auto" chose what it did; None where nothing was left to it."""
        if workers is None or ahead is None:
            tuning = tune(measure_cost(dataset, check_word("seed", seed)), batch_size, workers, ahead)
            workers, ahead, self.tuning = tuning.num_workers, tuning.prefetch_batches, tuning.reason
        self.dataset = dataset
        self.batch_size = batch_size
        self.epochs = epochs
        self.num_workers = workers
        self.worker_kind: WorkerKind = worker_kind
        self.prefetch_batches = ahead or max(2, -(-2 * workers // batch_size))
        self.seed = check_word("seed", seed)
        self.rank, self.world_size = find_ranks(rank, world_size)
        self._order: Order
        if sampler is None and batch_sampler is None:
            self._order = Schedule(
                length, batch_size, self.seed, shuffle, drop_last, rank=self.rank, world_size=self.world_size
            )
        else:
            self._order = sampler_order(sampler, batch_sampler, batch_size, shuffle, drop_last, self.prefetch_batches)
        self._identity = {
            "seed": self.seed,
            "shuffle": bool(shuffle),
            "drop_last": bool(drop_last),
            "global_batch_size": batch_size * self.world_size,
            "num_samples": length,
            "index": dataset.index.fingerprint if isinstance(dataset, ClipDataset) else None,
            "sampler": sampler is not None or batch_sampler is not None,
            "in_order": bool(in_order),
            "world_size": self.world_size,
        }
        self._stats = Stats(workers)
        self._traces: list[ChromeTrace] = []
        if trace is not None:
            self._stats.add_observer(trace)
        self._parts = Parts(
            dataset=dataset,
            order=self._order,
            epochs=epochs,
            num_workers=workers,
            worker_kind=worker_kind,
            depth=self.prefetch_batches,
            seed=self.seed,
            in_order=in_order,
            collate_fn=collate_fn,
            worker_init_fn=worker_init_fn,
            on_error=on_error,
            max_error_rate=max_error_rate,
            error_log=error_log,
            clip_timeout=clip_timeout,
            rank=self.rank,
            device=make_device(device),
            device_prefetch=device_prefetch,
            device_transform=None if isinstance(device_transform, DeviceTransform) else device_transform,
            pixel_transform=device_transform if isinstance(device_transform, DeviceTransform) else None,
            wire=wire,
            stats=self._stats,
        )
        self._current: weakref.ref[EpochIterator] | None = None
        self._resumed = False
        self._repeated: npt.NDArray[np.bool_] | None = None
        self._start()

    def _start(self) -> None:
        self._pipeline: Pipeline = make_pipeline(self._parts)
        # Before anything is started, so that Ctrl-C from here on leaves nothing behind.
        self._finalizer = weakref.finalize(self, self._pipeline.close)
        self._pipeline.start()

    def __len__(self) -> int:
        """Batches per epoch."""
        return len(self._order)

    @property
    def epoch(self) -> int:
        """The epoch that is being looped over, or else that the next loop is."""
        return self._position().epoch

    @property
    def repeated(self) -> torch.Tensor | None:
        """bool[B], which samples of the batch given last are repetitions; None where none is (see `drop_last`)."""
        return None if self._repeated is None else torch.from_numpy(self._repeated)

    def _position(self) -> Position:
        """Where the consumer is; at the start of the next epoch, where it isn't in a loop any more."""
        position = self._pipeline.position
        current = self._current() if self._current is not None else None
        looping = current is not None and current.active
        if position.taken and not looping and not self._resumed:
            return Position(position.generation, position.epoch + 1, 0)
        return position

    def __iter__(self) -> Iterator[Any]:
        """Begin the next epoch; what is left of the one before is given up.

        An epoch of which no batch was taken is still to come, and one that a state was loaded in goes on.

        Raises:
            EpochsExhaustedError: If `epochs` have been given already.
            LoaderClosedError: If the loader is closed.
        """
        position = self._pipeline.position
        epoch = position.epoch + 1 if position.taken and not self._resumed else position.epoch
        if self.epochs is not None and epoch >= self.epochs:
            raise EpochsExhaustedError(
                f"the loader was made for epochs={self.epochs}, and has given them all; make it with more, or without "
                "epochs="
            )
        self._pipeline.check_open()
        self._end_loop()
        self._pipeline.begin(epoch)
        iterator = EpochIterator(self, epoch)
        self._current = weakref.ref(iterator)
        return iterator

    def _end_loop(self) -> None:
        current = self._current() if self._current is not None else None
        if current is not None:
            current.replaced = True

    def stats(self) -> dict[str, Any]:
        """What it has done so far, as plain values.

        Returns:
            - ``seconds`` since it was made, and ``num_workers``;
            - how many ``batches`` and ``samples`` were loaded (ahead of time, too), ``errors`` there were, samples
              were ``replaced``, ``restarts`` of workers there were, and ``fallbacks``: clips that a CPU backend decoded
              where the device couldn't;
            - of clips: ``bytes`` and ``packets`` read, frames ``wanted``, packets ``leading`` (decoded before the first
              wanted frame) and ``dropped`` (left out between others), codecs ``opened`` and ``reused``, and clips that
              are damaged and were ``concealed`` (with ``concealed="allow"``);
            - ``first_batch``, seconds that it was waited for; ``starved``, the share of the consumer's time after that
              in which it waited; ``backpressure``, the share of the workers' time in which they had nothing to do;
            - ``stages``: for each kind of `Span` its ``count`` and, in seconds, ``total``, ``p50``, ``p95``, ``p99``
              (to 9 %) and ``max``;
            - ``advice``, a sentence on what would make it faster.
        """
        return self._stats.summary()

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Write every `Span` from now on into a file that Chrome (chrome://tracing) and Perfetto open.

        It is complete when the loader is closed.

        Raises:
            ArgumentError: If the file can't be written.
        """
        trace = ChromeTrace(path, self.rank)
        self._traces.append(trace)
        self._stats.add_observer(trace.add)

    def state_dict(self) -> dict[str, Any]:
        """Where the consumer is, as plain values that JSON can hold.

        It counts the batches that were yielded, not those that are loaded ahead. On another number of ranks, the state
        of any rank serves, if `batch_size` times `world_size` stays as it was.
        """
        return make_state(self._position(), self._identity)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a state: the next loop gives exactly the batches that came after it.

        The number and kind of workers and `prefetch_batches` may differ from those of the loader that gave the state.
        A state taken in a loop, after its last batch, is still one of that epoch: the next loop then gives no batch.

        Raises:
            StateError: If it isn't a state, or one of a loader with other batches; it says which parts differ.
            LoaderClosedError: If the loader is closed.
        """
        epoch, step, done = check_state(state_dict, self._identity)
        self._pipeline.check_open()
        self._end_loop()
        if self.epochs is not None and self._position().epoch >= self.epochs:  # its workers are gone
            self._pipeline.close()
            self._finalizer.detach()
            self._start()
        self._resumed = True
        self._pipeline.jump(epoch, step, done)

    def close(self) -> None:
        """End the workers. Batches that were yielded stay as they are."""
        self._pipeline.close()
        self._finalizer.detach()
        for trace in self._traces:
            trace.close()

    def __enter__(self) -> VideoLoader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
