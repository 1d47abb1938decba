"""The process that demuxes files for `vidload.index.pool`, one after another.

It is asked for each by a `Request`; `vidload.index.processes` says how.
"""

from __future__ import annotations

from typing import NamedTuple

from vidload.errors import NoVideoStreamError, UnreadableVideoError
from vidload.index.demux import demux_video
from vidload.index.format import facts_of
from vidload.index.processes import serve

__all__ = ["NO_VIDEO", "READ", "UNREADABLE", "Request", "main", "read_facts"]


class Request(NamedTuple):
    """A file to demux, and the arguments of `demux_video`."""

    path: str
    stream: int | None = None
    checksums: bool = False


READ = b"v"
"""A serialised record batch of `FACTS` with one row follows."""
UNREADABLE = b"u"
"""The message of an UnreadableVideoError follows, in UTF-8."""
NO_VIDEO = b"n"
"""The message of a NoVideoStreamError follows, in UTF-8."""


def read_facts(request: Request) -> tuple[bytes, bytes]:
    """Demux a file; gives the kind of the answer and what follows."""
    path, stream, checksums = request
    try:
        return READ, facts_of([demux_video(path, stream=stream, checksums=checksums)]).serialize().to_pybytes()
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
    serve(lambda request: read_facts(Request(*request)))
