"""Messages and open files between a loader and one worker process, over a pair of Unix sockets."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import socket
import struct
from array import array
from collections.abc import Sequence
from typing import Any

from vidload.loader.memory import MemoryFile

__all__ = ["Channel"]

_HEADER = struct.Struct("<QB")  # length of the message in bytes, number of files that come with it
_SPACE_FOR_FILES = socket.CMSG_SPACE(8 * array("i").itemsize)


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

    def send(self, message: Any, files: Sequence[MemoryFile] = ()) -> None:
        """Send a message, and copies of open files.

        Raises:
            ConnectionError: If the other end is gone.
        """
        data = pickle.dumps(message, protocol=5)
        header = _HEADER.pack(len(data), len(files))
        if files:
            # Files travel with the first byte that is sent.
            sent = socket.send_fds(self._socket, [header], [file.fileno() for file in files])
            self._socket.sendall(header[sent:])
        else:
            self._socket.sendall(header)
        self._socket.sendall(data)

    def receive(self) -> tuple[Any, list[MemoryFile]]:
        """Receive a message and the files that come with it.

        Raises:
            EOFError: If the other end is gone.
            OSError: If there is no descriptor left for a file.
        """
        files: list[MemoryFile] = []
        header = b""
        try:
            while len(header) < _HEADER.size:
                # Not socket.recv_fds, which leaves out the flags: processes started later would inherit the files.
                part, ancillary, _, _ = self._socket.recvmsg(
                    _HEADER.size - len(header), _SPACE_FOR_FILES, socket.MSG_CMSG_CLOEXEC
                )
                files += [MemoryFile(descriptor) for *_, data in ancillary for descriptor in array("i", data)]
                if not part:
                    raise EOFError
                header += part
            length, count = _HEADER.unpack(header)
            message = bytearray(length)
            view = memoryview(message)
            while view:
                received = self._socket.recv_into(view)
                if not received:
                    raise EOFError
                view = view[received:]
        except ConnectionError as error:
            raise EOFError(str(error)) from error
        if len(files) < count:
            # The kernel leaves out what it has no number for, and says nothing else.
            code = errno.EMFILE
            raise OSError(code, f"{os.strerror(code)}: memory can't be shared; raise the limit (ulimit -n)")
        return pickle.loads(message), files

    def close(self) -> None:
        """Close this end; the other one then receives EOFError."""
        with contextlib.suppress(OSError):  # the other end is gone already
            # A process forked from this one may have the socket open too, so closing alone would not be seen.
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
