"""Messages and open files between a loader and one worker process, over a pair of Unix sockets."""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any

__all__ = ["Channel"]

_HEADER = struct.Struct("<QB")  # length of the message in bytes, number of files that come with it
_MAX_FILES = 8


class Channel:
    """One end. Both ends belong to vidload's own processes, so messages are pickled.

    Each direction is for one thread at a time.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """A channel and the socket of its other end."""
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(here), there

    def fileno(self) -> int:
        """The socket's descriptor, for selectors."""
        return self._socket.fileno()

    def send(self, message: Any, files: Sequence[int] = ()) -> None:
        """Send a message, and copies of open files.

        Raises:
            OSError: If the other end is gone.
        """
        data = pickle.dumps(message, protocol=5)
        header = _HEADER.pack(len(data), len(files))
        if files:
            # Files travel with the first byte that is sent.
            sent = socket.send_fds(self._socket, [header], list(files))
            self._socket.sendall(header[sent:])
        else:
            self._socket.sendall(header)
        self._socket.sendall(data)

    def receive(self) -> tuple[Any, list[int]]:
        """Receive a message and the files that come with it.

        Raises:
            EOFError: If the other end is gone.
        """
        files: list[int] = []
        header = b""
        try:
            while len(header) < _HEADER.size:
                part, more, _, _ = socket.recv_fds(
                    self._socket, _HEADER.size - len(header), _MAX_FILES, socket.MSG_CMSG_CLOEXEC
                )
                files += more
                if not part:
                    raise EOFError
                header += part
            length, _ = _HEADER.unpack(header)
            data = bytearray(length)
            view = memoryview(data)
            while view:
                count = self._socket.recv_into(view)
                if not count:
                    raise EOFError
                view = view[count:]
        except OSError as error:
            raise EOFError(str(error)) from error
        return pickle.loads(data), files

    def close(self) -> None:
        """Close this end; the other one then receives EOFError."""
        self._socket.close()
