"""Pickling samples and batches of any kind, with large buffers beside the pickle."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Iterable
from typing import Any

import cloudpickle

__all__ = ["dump", "load"]

# Buffers below this travel inside the pickle: a copy of them costs less than the calls that would save it.
_LARGE = 16 * 1024


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


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Like cloudpickle's, with torch's CPU tensors as buffers instead of copies."""

    def reducer_override(self, value: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and type(value) is torch.Tensor and _is_plain(torch, value):
            tensor = value.detach()
            # The order of its axes in memory, so that channels_last arrives as such, and without a copy.
            order = sorted(range(tensor.dim()), key=lambda axis: (-tensor.stride(axis), axis))
            flat = tensor.permute(order).contiguous()
            # numpy has no bfloat16 and the like, but bytes it has.
            data = flat.view(-1).view(torch.uint8).numpy() if flat.numel() else b""
            dtype = str(value.dtype).removeprefix("torch.")
            return _tensor, (data, dtype, tuple(flat.shape), tuple(order), value.requires_grad)
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


def _tensor(data: Any, dtype: str, shape: tuple[int, ...], order: tuple[int, ...], requires_grad: bool) -> Any:
    import torch

    kind = getattr(torch, dtype)
    flat = torch.from_numpy(data).view(kind) if len(data) else torch.empty(0, dtype=kind)
    axes = sorted(range(len(order)), key=order.__getitem__)
    tensor = flat.view(shape).permute(axes)
    return tensor.requires_grad_() if requires_grad else tensor
