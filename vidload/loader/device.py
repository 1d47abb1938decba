"""Devices that batches are copied to: one small interface over torch's, so that tests can stand in for hardware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from vidload.errors import ArgumentError
from vidload.loader import cuda
from vidload.loader.memory import Mapping

__all__ = ["Accelerator", "Device", "Host", "Mark", "make_device"]


class Mark(Protocol):
    """A place in a stream of work; torch.Event is one."""

    def query(self) -> bool:
        """Whether all work before it is done."""
        ...

    def synchronize(self) -> None:
        """Wait until it is."""
        ...


class Device(Protocol):
    """Where batches go. `hand_over` is for the consumer's thread, all others for the one that copies.

    Attributes:
        place: Torch's name of it.
    """

    place: torch.device

    def enter(self) -> None:
        """Called first in a thread that does nothing else: what it does from now on is work of a stream of its own."""
        ...

    def pin(self, mapping: Mapping) -> None:
        """Make host memory one that copies are made from without the host."""
        ...

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        """Begin to copy a tensor of the host, which must stay as it is until a later mark is done."""
        ...

    def mark(self) -> Mark:
        """A mark after all work so far."""
        ...

    def elapsed(self, begin: Mark, end: Mark) -> float | None:
        """Seconds between two marks that are done; None where that isn't known."""
        ...

    def hand_over(self, tensors: Sequence[torch.Tensor], mark: Mark) -> None:
        """Make the caller's current stream wait for a mark, and tensors of the copying stream safe to use in it."""
        ...


class Host:
    """The CPU, where nothing has to be copied."""

    place = torch.device("cpu")

    def enter(self) -> None:
        """Nothing to do."""

    def pin(self, mapping: Mapping) -> None:
        """Nothing to do."""

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor itself."""
        return tensor

    def mark(self) -> Mark:
        """A mark that is done."""
        return _Done()

    def elapsed(self, begin: Mark, end: Mark) -> float | None:
        """None: nothing was copied."""
        return None

    def hand_over(self, tensors: Sequence[torch.Tensor], mark: Mark) -> None:
        """Nothing to do."""


class _Done:
    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class Accelerator:
    """A device of torch's accelerator: CUDA, or another that has streams and events.

    Args:
        device: With its index.
    """

    def __init__(self, device: torch.device) -> None:
        self.place = self._device = device
        self._stream: Any = None  # until `enter`; who never calls it copies on the current stream
        self._is_cuda = device.type == "cuda"

    def enter(self) -> None:
        """Make this thread's current device and stream those of the copies; both are each thread's own."""
        torch.accelerator.set_device_index(self._device.index)
        torch.empty(0, device=self._device)  # the context, before anything is asked of it
        if self._is_cuda:
            cuda.bear_captures()
        self._stream = torch.Stream(device=self._device)
        torch.accelerator.set_stream(self._stream)

    def pin(self, mapping: Mapping) -> None:
        """Register a slot with CUDA; elsewhere copies are made from memory as it is."""
        if self._is_cuda:
            cuda.register(mapping)

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        """Begin to copy; what isn't pinned goes through memory that is, which torch keeps for as long as it takes."""
        if tensor.device == self._device:
            return tensor  # a backend decoded it there
        if self._is_cuda and tensor.numel() and not tensor.is_pinned():
            tensor = cuda.pinned(tensor)
        return tensor.to(self._device, non_blocking=True)

    def mark(self) -> Mark:
        """An event."""
        stream = torch.accelerator.current_stream(self._device) if self._stream is None else self._stream
        event = torch.Event(self._device, enable_timing=True)
        event.record(stream)
        return event

    def elapsed(self, begin: Mark, end: Mark) -> float | None:
        """As the device's clock has it."""
        return float(begin.elapsed_time(end)) / 1000  # type: ignore[attr-defined]

    def hand_over(self, tensors: Sequence[torch.Tensor], mark: Mark) -> None:
        """The host waits for nothing."""
        stream = torch.accelerator.current_stream(self._device)
        stream.wait_event(mark)  # type: ignore[arg-type]
        for tensor in tensors:
            # Their memory is the copying stream's: not to be used again before this stream is done with it.
            tensor.record_stream(stream)


def make_device(device: str | torch.device) -> Device:
    """The device of a name.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, or another accelerator of torch's. Without an index it is the
            current one.

    Raises:
        ArgumentError: If there is no such device.
    """
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ArgumentError(f"device={device!r}: {str(error).splitlines()[0]}") from error
    if found.type == "cpu":
        return Host()
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if accelerator is None or accelerator.type != found.type:
        has = "none" if accelerator is None else f"{accelerator.type!r}"
        raise ArgumentError(
            f"device={device!r}: the accelerator that torch {torch.__version__} can use here is {has}; "
            "`vidload doctor` tells more, and device='cpu' works everywhere"
        )
    count = torch.accelerator.device_count()
    index = torch.accelerator.current_device_index() if found.index is None else found.index
    if index >= count:
        raise ArgumentError(f"device={device!r}: there are {count}, numbered from 0")
    return Accelerator(torch.device(found.type, index))
