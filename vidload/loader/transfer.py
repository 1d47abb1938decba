"""From finished batches of the host to batches on the device, ahead of the consumer.

The rules: a slot isn't given back before its copy is done (the batch in it is kept until then), and no batch is read
before its copy is done (the consumer's stream waits; the host doesn't).
"""

from __future__ import annotations

import copy
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

from vidload.loader.device import Device, Mark
from vidload.loader.pipeline import Finished, Key
from vidload.loader.span import Span
from vidload.loader.stats import Stats

__all__ = ["Sent", "Transfer", "map_tensors", "tensors_of"]


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch on the device, complete when its mark is done."""

    finished: Finished
    mark: Mark


@dataclass(frozen=True, slots=True)
class _Copy:
    """A batch of the host that is being copied."""

    key: Key
    begin: Mark
    end: Mark
    batch: Any


class Transfer:
    """Copies batches, and changes them there. `receive` is for the consumer's thread, all others for one other.

    Args:
        device: Where to.
        transform: Called with every batch on the device, as work of the copying stream; what it returns is the batch.
        stats: Told of the time that copies take.
    """

    def __init__(
        self, device: Device, transform: Callable[[Any], Any] | None = None, stats: Stats | None = None
    ) -> None:
        self.device = device
        self._transform = transform
        self._stats = stats or Stats()
        self._under_way: deque[_Copy] = deque()

    def enter(self) -> None:
        """Called first, in the thread that sends."""
        self.device.enter()

    def send(self, finished: Finished, key: Key = (0, 0)) -> Sent:
        """Begin to copy a batch, of an epoch and step."""
        self.collect()
        with torch.no_grad():
            begin = self.device.mark()
            batch = map_tensors(finished.batch, self.device.put)
            copied = self.device.mark()
            self._under_way.append(_Copy(key, begin, copied, finished.batch))
            if self._transform is not None and finished.error is None:
                batch = self._transform(batch)
                copied = self.device.mark()
        return Sent(replace(finished, batch=batch), copied)

    def receive(self, sent: Sent) -> Finished:
        """Make a batch one of the caller's current stream."""
        self.device.hand_over(tensors_of(sent.finished.batch), sent.mark)
        return sent.finished

    def collect(self) -> None:
        """Let go of what is copied, so that its slot is free again."""
        while self._under_way and self._under_way[0].end.query():
            done = self._under_way.popleft()
            seconds = self.device.elapsed(done.begin, done.end)
            if seconds is not None:
                now = time.monotonic()
                self._stats.observe(Span("transfer", -1, *done.key, now - seconds, now))

    def close(self) -> None:
        """Wait for all copies, so that the memory they are made from can go."""
        while self._under_way:
            self._under_way[0].end.synchronize()
            self._under_way.popleft()


def map_tensors(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A batch with a function applied to its tensors, in dicts, lists, tuples, named tuples and dataclasses.

    Of objects of other types nothing is known; they stay as they are.
    """
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, PackedSequence):  # its batch sizes have to stay on the host
        parts = (value.data, value.sorted_indices, value.unsorted_indices)
        data, order, back = (map_tensors(part, function) for part in parts)
        return PackedSequence(data, value.batch_sizes, order, back)
    if isinstance(value, dict):
        mapped = copy.copy(value)  # of its own type, with what else it has
        mapped.update((key, map_tensors(item, function)) for key, item in value.items())
        return mapped
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_tensors(item, function) for item in value))
    if type(value) in (list, tuple):
        return type(value)(map_tensors(item, function) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.init]
        return replace(value, **{name: map_tensors(getattr(value, name), function) for name in names})
    return value


def tensors_of(value: Any) -> list[torch.Tensor]:
    """All tensors that `map_tensors` finds."""
    found: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    map_tensors(value, keep)
    return found
