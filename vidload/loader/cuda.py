"""What only CUDA has: registering host memory, and captures of graphs that other threads must not disturb."""

from __future__ import annotations

import contextlib
import ctypes
import warnings

import torch

from vidload.loader.memory import Mapping

__all__ = ["bear_captures", "pinned", "register"]

_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED

_HOW = "; batches are copied from memory that isn't pinned, which is slower"

_unpinned: set[str] = set()
"""What was said of memory that can't be pinned: once is enough."""


def register(mapping: Mapping) -> None:
    """Register memory with the driver (cudaHostRegister) until it is unmapped; warn once where that fails."""
    runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    address, size = mapping.address, mapping.size
    try:
        code = int(runtime.cudaHostRegister(address, size, 0))
    except RuntimeError as error:
        _say(f"host memory can't be registered with CUDA: {error}{_HOW}")
        return
    if code:
        _say(
            f"host memory can't be registered with CUDA (cudaHostRegister of {size} bytes gives error {code}); "
            f"`ulimit -l` may be too small{_HOW}"
        )
        return

    def unregister() -> None:
        # An interpreter that ends may have unloaded CUDA already.
        with contextlib.suppress(Exception):
            runtime.cudaHostUnregister(address)

    mapping.before_unmapping = unregister


def pinned(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor in pinned memory of torch's own; where there is none, the tensor, and a warning once."""
    try:
        return tensor.pin_memory()
    except RuntimeError as error:
        _say(f"memory can't be pinned: {str(error).splitlines()[0]}{_HOW}")
        return tensor


def bear_captures() -> None:
    """Let this thread allocate and ask for events while another one captures a CUDA graph.

    A capture in torch's default mode ("global") forbids that to all threads that didn't say they are none of its
    business: CUDA driver API, cuThreadExchangeStreamCaptureMode.
    """
    with contextlib.suppress(OSError, AttributeError):
        mode = ctypes.c_int(_RELAXED)
        ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


def _say(message: str) -> None:
    if message not in _unpinned:
        _unpinned.add(message)
        warnings.warn(message, RuntimeWarning, stacklevel=2)
