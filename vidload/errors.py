"""Every error vidload raises on purpose.

Each class is also the builtin that a caller would expect (``except FileNotFoundError`` works), and each message says
what happened, to which file, frame or key, and what to do about it. All of them travel unharmed between processes.
"""

from __future__ import annotations

__all__ = [
    "ArgumentError",
    "ConfigError",
    "DecodeError",
    "EmptySourceError",
    "EpochsExhaustedError",
    "ErrorRateExceeded",
    "IndexFormatError",
    "LoaderClosedError",
    "NoVideoStreamError",
    "SampleError",
    "SendError",
    "StaleIndexError",
    "StateError",
    "StrictIndexError",
    "UnreadableVideoError",
    "VideoTooShortError",
    "VidloadError",
    "WorkerError",
]


class VidloadError(Exception):
    """Base class of all errors raised by vidload."""

    def __str__(self) -> str:
        # OSError and KeyError format their arguments in ways of their own; one plain message is wanted everywhere.
        return str(self.args[0]) if self.args else type(self).__name__


class ArgumentError(VidloadError, ValueError):
    """An argument has a value that can't work; the message names the argument, what came and what is allowed."""


class ConfigError(VidloadError, ValueError):
    """A configuration file or override is wrong; the message names the file and the key."""


class EmptySourceError(VidloadError, FileNotFoundError):
    """A file, folder, glob or list that should lead to videos doesn't exist or leads to none."""


class UnreadableVideoError(VidloadError, OSError):
    """A file can't be read as a video (missing, truncated, no video at all); the message names file and reason."""


class NoVideoStreamError(UnreadableVideoError):
    """A file can be read but holds no video stream, or no frame of it."""


class StrictIndexError(UnreadableVideoError):
    """An index was to be built with ``strict=True`` and at least one file can't be read; nothing was written."""


class IndexFormatError(VidloadError, ValueError):
    """A file isn't an index, or was written by a version of vidload whose format this one doesn't read."""


class StaleIndexError(VidloadError, RuntimeError):
    """A video file isn't the one that was indexed any more (its size or modification time differ, or it is gone)."""


class DecodeError(VidloadError, RuntimeError):
    """Frames could not be decoded, or came out damaged; the message names video, frames and backend."""


class VideoTooShortError(VidloadError, ValueError):
    """A video has fewer frames than a clip needs and the sampler was told ``short="error"``."""


class SampleError(VidloadError, RuntimeError):
    """User code (a Dataset, a transform or a collate function) raised; carries the worker's traceback as text."""


class SendError(VidloadError, TypeError):
    """A data set, transform or collate function can't be sent to a worker process."""


class WorkerError(VidloadError, RuntimeError):
    """A worker process could not start, or died; the message says how and what it was working on."""


class ErrorRateExceeded(VidloadError, RuntimeError):  # noqa: N818 - says what happened, as StopIteration does
    """More samples couldn't be loaded than ``max_error_rate`` allows; the message sums them up."""


class StateError(VidloadError, ValueError):
    """A loader's state doesn't fit the loader that is to continue from it; the message says which parts differ."""


class EpochsExhaustedError(VidloadError, RuntimeError):
    """The loader was told ``epochs=`` and has given them all."""


class LoaderClosedError(VidloadError, RuntimeError):
    """The loader was closed and is asked for another batch."""
