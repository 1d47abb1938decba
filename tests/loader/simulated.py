"""A device without hardware: its streams do their work when a test says so, and its memory is used again at once.

Copies read the host's memory when they are carried out, not when they are asked for; memory that is let go of is given
to the next copy as soon as its rules allow. So a slot that is written too early, a batch that is read too early and
memory that isn't kept for a stream all show in what is read.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from vidload.loader.memory import Mapping

SIZE = 64
"""Bytes of a block of the device's memory; no tensor is larger."""

_GARBAGE = 0xEE

Block = npt.NDArray[np.uint8]


class Stream:
    """Work in the order it was asked for."""

    def __init__(self) -> None:
        self._work: deque[Callable[[], bool]] = deque()

    def add(self, work: Callable[[], object]) -> None:
        self._work.append(lambda: work() is not False)

    def wait_for(self, mark: Mark) -> None:
        self._work.append(lambda: mark.done)

    def step(self) -> bool:
        """Do the next piece of work; whether there was one that could be done."""
        if self._work and self._work[0]():
            self._work.popleft()
            return True
        return False


class Mark:
    def __init__(self, stream: Stream) -> None:
        self.done = False
        self._stream = stream

    def reach(self) -> None:
        self.done = True

    def query(self) -> bool:
        return self.done

    def synchronize(self) -> None:
        while not self.done:
            assert self._stream.step()


class SimulatedDevice:
    """See the module.

    Attributes:
        copying: The stream of whoever called `enter`.
        current: The consumer's stream.
        pinned: How many slots were registered.
        late: How many copies were asked for and not carried out when their batch was received.
    """

    place = torch.device("cpu")

    def __init__(self) -> None:
        self.copying = Stream()
        self.current = Stream()
        self.pinned = 0
        self.late = 0
        self.entered: list[str] = []
        self._free: list[Block] = []
        self.blocks = 0
        self._block_of: dict[int, Block] = {}
        self._streams_of: dict[int, list[Stream]] = {}
        self._lock = threading.RLock()

    # What a loader asks of it

    def enter(self) -> None:
        self.entered.append(threading.current_thread().name)

    def pin(self, mapping: Mapping) -> None:
        self.pinned += 1

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        with self._lock:
            made, block = self.make(tensor.shape, tensor.dtype)
            assert tensor.is_contiguous()
            count = tensor.numel() * tensor.element_size()
            # The address alone, as hardware has it: who asks for the copy keeps what lies there.
            source = (ctypes.c_uint8 * count).from_address(tensor.data_ptr())
            self.copying.add(lambda: self._write(block, source, count))
            return made

    def mark(self) -> Mark:
        with self._lock:
            mark = Mark(self.copying)
            self.copying.add(mark.reach)
            return mark

    def elapsed(self, begin: Mark, end: Mark) -> float | None:
        assert begin.done
        assert end.done
        return 0.25

    def hand_over(self, tensors: Sequence[torch.Tensor], mark: Mark) -> None:
        with self._lock:
            self.late += not mark.done
            self.current.wait_for(mark)
            for tensor in tensors:
                self._streams_of[id(tensor)].append(self.current)

    # What a test asks of it

    def make(self, shape: Sequence[int], dtype: torch.dtype) -> tuple[torch.Tensor, Block]:
        """A tensor, and the memory it stands for; the tensor itself has nothing in it."""
        block = self._free.pop() if self._free else np.empty(SIZE, np.uint8)
        self.blocks += 1
        # As a kernel would: what lies there is overwritten when the stream gets to it.
        self.copying.add(lambda: block.fill(_GARBAGE))
        tensor = torch.empty(tuple(shape), dtype=dtype)
        assert tensor.numel() * tensor.element_size() <= SIZE
        key = id(tensor)
        self._block_of[key] = block
        self._streams_of[key] = []
        weakref.finalize(tensor, self._let_go, key)
        return tensor, block

    def read(self, tensor: torch.Tensor, report: Callable[[torch.Tensor], None]) -> None:
        """Read a tensor as work of the current stream, which keeps nothing alive."""
        block, shape, dtype = self._block_of[id(tensor)], tuple(tensor.shape), tensor.dtype
        count = tensor.numel() * tensor.element_size()

        def work() -> None:
            report(torch.from_numpy(block[:count].copy()).view(dtype).view(shape))

        with self._lock:
            self.current.add(work)

    def negated(self, tensor: torch.Tensor) -> torch.Tensor:
        """255 - tensor, as work of the copying stream."""
        with self._lock:
            source = self._block_of[id(tensor)]
            made, block = self.make(tensor.shape, tensor.dtype)
            self.copying.add(lambda: np.subtract(255, source, out=block))
            return made

    def finish(self) -> None:
        """Do all work there is."""
        with self._lock:
            while self.copying.step() or self.current.step():
                pass

    def _write(self, block: Block, source: ctypes.Array[ctypes.c_uint8], count: int) -> None:
        block[:count] = source

    def _let_go(self, key: int) -> None:
        with self._lock:
            block = self._block_of.pop(key)
            self.blocks -= 1
            streams = self._streams_of.pop(key)
            if not streams:
                self._free.append(block)
            for stream in streams[-1:]:
                stream.add(lambda: self._free.append(block))
