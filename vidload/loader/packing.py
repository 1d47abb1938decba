"""Samples and batches of any kind on their way between processes: pickled, with large buffers beside the pickle."""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections.abc import Iterable
from typing import Any

import cloudpickle

__all__ = ["dump", "load"]

# Buffers below this travel inside the pickle: a copy of them costs less than the calls that would save it.
_LARGE = 16 * 1024


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Like cloudpickle's, with torch's CPU tensors as buffers instead of copies."""

    def reducer_override(self, value: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and type(value) is torch.Tensor and _is_plain(torch, value):
            # numpy has no bfloat16 and the like, but bytes it has.
            flat = value.detach().contiguous().view(-1)
            data = flat.view(torch.uint8).numpy() if flat.numel() else b""
            return _tensor, (data, str(value.dtype).removeprefix("torch."), tuple(value.shape), value.requires_grad)
        return super().reducer_override(value)


def _is_plain(torch: Any, value: Any) -> bool:
    return (
        value.device.type == "cpu"
        and value.layout == torch.strided
        and not value.is_quantized
        and not value.is_conj()
        and not value.is_neg()
        and not value.dtype.is_complex
    )


def _tensor(data: Any, dtype: str, shape: tuple[int, ...], requires_grad: bool) -> Any:
    import torch

    kind = getattr(torch, dtype)
    if not len(data):
        return torch.empty(shape, dtype=kind, requires_grad=requires_grad)
    tensor = torch.from_numpy(data).view(kind).view(shape)
    return tensor.requires_grad_() if requires_grad else tensor


def dump(value: Any) -> tuple[bytes, list[memoryview]]:
    """Pickle a value; returns the pickle and the large buffers it leaves out.

    Raises:
        Exception: Whatever pickling the value raises.
    """
    buffers: list[memoryview] = []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:  # not contiguous
            return True
        if raw.nbytes < _LARGE:
            return True
        buffers.append(raw)
        return False

    target = io.BytesIO()
    _Pickler(target, protocol=5, buffer_callback=keep_inside).dump(value)
    return target.getvalue(), buffers


def load(data: bytes, buffers: Iterable[Any]) -> Any:
    """The value of a pickle, its large buffers given; they become the memory of its arrays and tensors."""
    return pickle.loads(data, buffers=buffers)


def write_all(descriptor: int, buffers: Iterable[memoryview], offset: int) -> None:
    """Write buffers one after another into a file."""
    for buffer in buffers:
        while buffer:
            written = os.pwrite(descriptor, buffer, offset)
            buffer, offset = buffer[written:], offset + written
