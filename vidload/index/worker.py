"""The process that demuxes files for `vidload.index.pool`, one after another.

Each line of standard input is a path as JSON. It is answered on standard output by one frame: a kind (one byte), a
length (eight bytes, little endian) and that many bytes. The process ends when its input does, so it never outlives its
parent.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys

from vidload.errors import NoVideoStreamError, UnreadableVideoError
from vidload.index.demux import demux_video
from vidload.index.format import facts_of

__all__ = ["FRAME", "NO_VIDEO", "READ", "READY", "UNREADABLE", "main", "read_facts"]

FRAME = struct.Struct("<cQ")
"""How an answer begins: its kind and the length of what follows."""
READY = b"!"
"""The process has started; nothing follows."""
READ = b"v"
"""A serialised record batch of `FACTS` with one row follows."""
UNREADABLE = b"u"
"""The message of an UnreadableVideoError follows, in UTF-8."""
NO_VIDEO = b"n"
"""The message of a NoVideoStreamError follows, in UTF-8."""


def read_facts(path: str) -> tuple[bytes, bytes]:
    """Demux a file; gives the kind of the answer and what follows."""
    try:
        return READ, facts_of([demux_video(path)]).serialize().to_pybytes()
    except NoVideoStreamError as error:
        return NO_VIDEO, _encode(str(error))
    except UnreadableVideoError as error:
        return UNREADABLE, _encode(str(error))
    except Exception as error:  # whatever a broken file makes of a demuxer, it costs this file and not the index
        return UNREADABLE, _encode(f"{path}: can't be read ({type(error).__name__}: {error})")


def _encode(message: str) -> bytes:
    return message.encode("utf-8", "surrogateescape")


def main() -> None:
    """Answer every line of standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which then ends this process
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what a library prints must not come between the answers
        kind, content = READY, b""
        while True:
            answers.write(FRAME.pack(kind, len(content)) + content)
            answers.flush()
            line = sys.stdin.buffer.readline()
            if not line:
                return
            kind, content = read_facts(json.loads(line))
