"""A worker process: ``python -m vidload.loader.worker DESCRIPTOR`` with one end of a channel.

It is a module of its own, so nothing of the loader's process is run again (no ``if __name__ == "__main__"`` is needed)
and no process that uses CUDA is forked. It imports no torch unless the user's code does, and it ends with its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import queue
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from vidload.errors import SampleError, WorkerError
from vidload.loader.channel import Channel
from vidload.loader.memory import Mapping, memory_file
from vidload.loader.messages import (
    Attach,
    ClipTask,
    CollateTask,
    Detach,
    Done,
    Failed,
    PackedSample,
    Ready,
    SampleTask,
    Start,
)
from vidload.loader.packing import dump, load, write_all
from vidload.loader.runner import Runner

__all__ = ["ROW_STRIDE", "main"]

ROW_STRIDE = 1 << 34
"""Bytes from one row to the next in a slot of samples: none is larger, and what isn't written takes no memory."""

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Serve the loader at the other end of the channel until it closes it."""
    parent, number = os.getppid(), int(sys.argv[2])
    # Decoders may hold the GIL for long, or for ever: the kernel ends this process with the loader's in any case.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the loader's to handle
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    message, _ = channel.receive()
    assert isinstance(message, Start)
    sys.path[:] = message.path
    try:
        runner: Runner = pickle.loads(message.runner)
    except BaseException as error:
        reason = "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()
        channel.send(
            Failed(None, WorkerError(f"a worker can't load the data set: {error}\n\nWhere it was raised:\n{reason}"))
        )
        return
    channel.send(Ready())
    _Server(channel, runner, number).serve()


class _Server:
    def __init__(self, channel: Channel, runner: Runner, number: int) -> None:
        self._channel = channel
        self._runner = runner
        self._number = number
        self._slots: dict[int, tuple[int, int]] = {}
        self._arrays: dict[int, Any] = {}
        self._inbox: queue.SimpleQueue[tuple[Any, list[int]] | None] = queue.SimpleQueue()

    def serve(self) -> None:
        """Run tasks in the order they come."""
        # Messages are taken off the socket at once, so that the loader never waits for this worker to listen.
        threading.Thread(target=self._listen, name="vidload-listen", daemon=True).start()
        while (item := self._inbox.get()) is not None:
            message, files = item
            if isinstance(message, Attach):
                self._slots[message.slot] = (files[0], message.size)
            elif isinstance(message, Detach):
                self._arrays.pop(message.slot, None)
                if message.slot in self._slots:
                    os.close(self._slots.pop(message.slot)[0])
            else:
                try:
                    self._run(message)
                except OSError:
                    return  # the loader is gone

    def _listen(self) -> None:
        with contextlib.suppress(EOFError):
            while True:
                self._inbox.put(self._channel.receive())
        self._inbox.put(None)

    def _run(self, task: ClipTask | SampleTask | CollateTask) -> None:
        if isinstance(task, ClipTask):
            self._channel.send(self._runner.run(task, self._number, self._memory))
            return
        if isinstance(task, CollateTask):
            task = replace(task, samples=list(self._unpack(task)))
        result = self._runner.run(task, self._number, self._memory)
        file = -1
        if isinstance(result, Done):
            try:
                if isinstance(task, SampleTask):
                    result = replace(result, value=self._pack_sample(task, result.value))
                else:
                    packed, file = _pack_batch(result.value)
                    result = replace(result, value=packed)
            except Exception as error:
                what = f"sample {task.sample}" if isinstance(task, SampleTask) else f"the batch of step {task.step}"
                result = Failed(
                    task.id, SampleError(f"{what} of epoch {task.epoch} can't be sent to the loader: {error!r}")
                )
        if isinstance(result, Failed):
            result = _sendable(result)
        try:
            self._channel.send(result, () if file < 0 else (file,))
        finally:
            if file >= 0:
                os.close(file)

    def _memory(self, slot: int) -> Any:
        """A slot as uint8[B, T, H, W, 3]; only slots of clips are mapped."""
        array = self._arrays.get(slot)
        if array is None:
            descriptor, size = self._slots[slot]
            shape = self._runner.dataset.clip_shape
            row = shape[0] * shape[1] * shape[2] * shape[3]
            array = self._arrays[slot] = Mapping(descriptor, size).array((size // row, *shape))
        return array

    def _pack_sample(self, task: SampleTask, value: Any) -> PackedSample:
        data, buffers = dump(value)
        offset = task.row * ROW_STRIDE
        lengths = tuple(buffer.nbytes for buffer in buffers)
        if sum(lengths) > ROW_STRIDE:
            raise ValueError(f"it takes {sum(lengths)} bytes; at most {ROW_STRIDE} are possible")
        if buffers:
            write_all(self._slots[task.slot][0], buffers, offset)
        return PackedSample(data, lengths, offset)

    def _unpack(self, task: CollateTask) -> Iterator[Any]:
        for packed in task.samples:
            buffers, offset = [], packed.offset
            for length in packed.lengths:
                # A copy, not a view: user code may keep what it gets, and the slot is used again.
                buffer = bytearray(length)
                view, at = memoryview(buffer), offset
                while view:
                    count = os.preadv(self._slots[task.slot][0], [view], at)
                    view, at = view[count:], at + count
                buffers.append(buffer)
                offset += length
            yield load(packed.data, buffers)


def _pack_batch(value: Any) -> tuple[PackedSample, int]:
    data, buffers = dump(value)
    lengths = tuple(buffer.nbytes for buffer in buffers)
    if not lengths:
        return PackedSample(data, (), 0), -1
    file = memory_file("vidload-batch", sum(lengths))
    try:
        write_all(file, buffers, 0)
    except OSError:
        os.close(file)
        raise
    return PackedSample(data, lengths, 0), file


def _sendable(result: Failed) -> Failed:
    """The error without its cause, which may not survive the journey; the message tells it in words."""
    result.error.__cause__ = result.error.__context__ = result.error.__traceback__ = None
    return result


if __name__ == "__main__":
    main()
