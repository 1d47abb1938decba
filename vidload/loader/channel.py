"""Messages and open files between a loader and one worker process, over a pair of Unix sockets."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import socket
import struct
from array import array
from collections import deque
from collections.abc import Sequence
from typing import Any

from vidload.loader.memory import MemoryFile

__all__ = ["Channel", "Message", "pack"]

Message = tuple[Any, list[MemoryFile]]
"""A message, and the files that came with it."""

_HEADER = struct.Struct("<QB")  # length of the message in bytes, number of files that come with it
_SPACE_FOR_FILES = socket.CMSG_SPACE(8 * array("i").itemsize)
_READ = 64 * 1024
_SMALL = 16 * 1024  # copying that much costs less than another system call


def pack(message: Any) -> bytes:
    """A message as it is sent; for one that many workers get."""
    return pickle.dumps(message, protocol=5)


class Channel:
    """One end. Both ends belong to vidload's own processes, so messages are pickled.

    Each direction is for one thread at a time.

    Args:
        end: The socket, which belongs to the channel from now on.
        blocking: Whether `send` and `receive` wait. Otherwise no call waits for the other end, which may be stopped in
            the middle of a message: what can't be sent yet is kept for `flush`.
    """

    def __init__(self, end: socket.socket, *, blocking: bool) -> None:
        end.setblocking(blocking)
        self._socket = end
        self._outbox: deque[tuple[memoryview, Sequence[MemoryFile]]] = deque()
        self._inbox = bytearray()
        self._files: deque[MemoryFile] = deque()

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """A channel that doesn't block, and the socket of its other end."""
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(here, blocking=False), there

    def fileno(self) -> int:
        """The socket's descriptor, for selectors."""
        return self._socket.fileno()

    def send(self, message: Any, files: Sequence[MemoryFile] = ()) -> bool:
        """Send a message, and copies of open files; see `flush`."""
        return self.send_packed(pack(message), files)

    def send_packed(self, data: bytes, files: Sequence[MemoryFile] = ()) -> bool:
        """Send what `pack` gave; see `flush`."""
        header = _HEADER.pack(len(data), len(files))
        if len(data) < _SMALL:
            self._outbox.append((memoryview(header + data), files))
        else:
            self._outbox += [(memoryview(header), files), (memoryview(data), ())]
        return self.flush()

    def flush(self) -> bool:
        """Send what isn't sent yet; returns whether that was all.

        Raises:
            ConnectionError: If the other end is gone.
        """
        while self._outbox:
            data, files = self._outbox[0]
            try:
                if files:
                    sent = socket.send_fds(self._socket, [data], [file.fileno() for file in files])
                else:
                    sent = self._socket.send(data)
            except BlockingIOError:
                return False
            if sent == len(data):
                self._outbox.popleft()
            else:
                self._outbox[0] = data[sent:], ()  # files travel with the first byte
        return True

    def receive(self) -> list[Message]:
        """Receive what there is; returns the messages that are complete with it, perhaps none.

        Raises:
            EOFError: If the other end is gone.
            OSError: If there is no descriptor left for a file.
        """
        try:
            # Not socket.recv_fds, which leaves out the flags: processes started later would inherit the files.
            data, ancillary, flags, _ = self._socket.recvmsg(_READ, _SPACE_FOR_FILES, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return []
        except ConnectionError as error:
            raise EOFError(str(error)) from error
        self._files += [MemoryFile(descriptor) for *_, numbers in ancillary for descriptor in array("i", numbers)]
        if flags & socket.MSG_CTRUNC:
            raise OSError(
                errno.EMFILE, f"{os.strerror(errno.EMFILE)}: memory can't be shared; raise the limit (ulimit -n)"
            )
        if not data:
            raise EOFError
        self._inbox += data
        messages = []
        while len(self._inbox) >= _HEADER.size:
            length, files = _HEADER.unpack_from(self._inbox)
            end = _HEADER.size + length
            if len(self._inbox) < end:
                break
            with memoryview(self._inbox) as view:
                message = pickle.loads(view[_HEADER.size : end])
            del self._inbox[:end]
            messages.append((message, [self._files.popleft() for _ in range(files)]))
        return messages

    def close(self) -> None:
        """Close this end; the other one then receives EOFError."""
        with contextlib.suppress(OSError):  # the other end is gone already
            # A process forked from this one may have the socket open too, so closing alone would not be seen.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._outbox.clear()
