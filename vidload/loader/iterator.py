"""One loop over a loader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from vidload.errors import LoaderClosedError, VidloadError
from vidload.loader.pipeline import Finished

if TYPE_CHECKING:
    from vidload.loader.loader import VideoLoader

__all__ = ["EpochIterator"]


class EpochIterator(Iterator[Any]):
    """One epoch's batches. Holds the loader, so that ``for batch in VideoLoader(...)`` keeps it alive."""

    _loader: VideoLoader | None = None  # for `__del__`, should Ctrl-C hit `__init__`

    def __init__(self, loader: VideoLoader, epoch: int) -> None:
        self._epoch = epoch
        self._begun = False
        self.replaced = False
        self._loader = loader

    @property
    def active(self) -> bool:
        """Whether it may still be asked for batches."""
        return self._loader is not None and self._begun and not self.replaced

    def __next__(self) -> Any:
        loader = self._loader
        if loader is None:
            raise StopIteration
        if self.replaced:
            raise LoaderClosedError(
                f"this loop over epoch {self._epoch} was ended by a later one over the same loader, or by a state that "
                "was loaded; make a loader for each of two loops at a time"
            )
        self._begun = True
        try:
            found = loader._pipeline.take()
        except VidloadError:
            self._leave()
            raise
        if not isinstance(found, Finished):
            self._leave()
            raise StopIteration
        loader._resumed = False
        loader._repeated = found.repeated
        return found.batch

    def _leave(self) -> None:
        loader, self._loader = self._loader, None
        if loader is None or self.replaced or not self._begun:
            return
        position = loader._pipeline.position
        # An epoch of which nothing was taken is still to come.
        if (position.epoch, position.taken) > (self._epoch, 0):
            loader._resumed = False
            loader._pipeline.leave(self._epoch)

    def __del__(self) -> None:
        self._leave()
