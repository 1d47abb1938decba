"""A worker process, which the loader starts as ``python -c`` with a call of `main`.

Nothing of the loader's process is run again (no ``if __name__ == "__main__"`` is needed), and no process that uses CUDA
is forked. It imports no torch unless the user's code does, and it ends with its parent.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import queue
import signal
import socket
import sys
import threading
import traceback
from dataclasses import replace

from vidload.errors import WorkerError
from vidload.loader.channel import Channel, Message
from vidload.loader.memory import Mapping, MemoryFile
from vidload.loader.messages import Attach, ClipTask, CollateTask, Detach, Done, Failed, Ready, Start, Task
from vidload.loader.parcel import open_copied, pack_into, pack_whole
from vidload.loader.runner import Runner, as_vidload_error

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1


def main(descriptor: int, number: int, parent: int, begun: int) -> None:
    """Serve the loader until it closes the channel.

    Args:
        descriptor: This end of the channel.
        number: The worker's.
        parent: Process id of the loader.
        begun: A file where the id of each task is written when it begins.
    """
    # Decoders may hold the GIL for long, or for ever: the kernel ends this process with the loader's in any case.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the loader's to handle
    for inherited in (descriptor, begun):
        os.set_inheritable(inherited, False)  # a process that user code starts mustn't keep the channel open
    channel = Channel(socket.socket(fileno=descriptor), blocking=True)
    try:
        messages: list[Message] = []
        while not messages:
            messages = channel.receive()
        start, _ = messages.pop(0)
        assert isinstance(start, Start)
        try:
            runner: Runner = pickle.loads(start.runner)
        except BaseException as error:
            channel.send(Failed(None, _not_loaded(error)))
            return
        failed = runner.enter(number)
        channel.send(failed or Ready())
        if failed is not None:
            return
        _Server(channel, runner, number, messages, MemoryFile(begun)).serve()
    except (EOFError, ConnectionError):
        return  # the loader is gone


def _not_loaded(error: BaseException) -> WorkerError:
    where = "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()
    return WorkerError(
        f"a worker process can't load the data set: {type(error).__name__}: {error}\n\nWhere it was raised:\n{where}"
    )


class _Server:
    def __init__(
        self, channel: Channel, runner: Runner, number: int, messages: list[Message], begun: MemoryFile
    ) -> None:
        self._channel = channel
        self._runner = runner
        self._number = number
        self._begun = begun
        self._slots: dict[int, tuple[MemoryFile, int]] = {}
        self._mappings: dict[int, Mapping] = {}
        self._inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        for message in messages:
            self._inbox.put(message)
        self._end: Exception | None = None

    def serve(self) -> None:
        """Do what messages say, in the order they come.

        Raises:
            EOFError: When the loader is gone; what it asked for before isn't done any more.
        """
        # In a thread of its own, so that the loader's end is noticed at once, and tasks are here when they are due.
        threading.Thread(target=self._listen, name="vidload-listen", daemon=True).start()
        while True:
            item = self._inbox.get()
            if self._end is not None:
                raise self._end
            if item is None:
                continue
            message, files = item
            if isinstance(message, Attach):
                self._slots[message.slot] = (files[0], message.size)
            elif isinstance(message, Detach):
                self._slots.pop(message.slot, None)
                self._mappings.pop(message.slot, None)
            else:
                self._channel.send(*self._run(message))

    def _listen(self) -> None:
        try:
            while True:
                for message in self._channel.receive():
                    self._inbox.put(message)
        except Exception as error:
            self._end = error
            self._inbox.put(None)

    def _run(self, task: Task) -> tuple[Done | Failed, list[MemoryFile]]:
        """A task's result, with samples and batches as parcels, and the files that belong to it."""
        os.pwrite(self._begun.fileno(), task.id.to_bytes(8, "little"), 0)
        if isinstance(task, ClipTask):
            return self._runner.run(task, self._number, self._mapping), []
        try:
            file, _ = self._slots[task.slot]
            if isinstance(task, CollateTask):
                task = replace(task, samples=[open_copied(parcel, file) for parcel in task.samples])
            result = self._runner.run(task, self._number, self._mapping)
            if isinstance(result, Failed):
                return result, []
            if isinstance(task, CollateTask):
                parcel, files = pack_whole(result.value)
                return replace(result, value=parcel), files
            return replace(result, value=pack_into(file, task.row, result.value)), []
        except Exception as error:  # of a value that can't be pickled, or there is no memory for
            return Failed(task.id, as_vidload_error(error, task)), []

    def _mapping(self, slot: int) -> Mapping:
        if slot not in self._mappings:
            self._mappings[slot] = Mapping(*self._slots[slot])
        return self._mappings[slot]
