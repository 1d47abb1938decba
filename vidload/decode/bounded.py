"""A cache of a few open things, the least recently used dropped first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["BoundedCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Keeps at most `size` values. For one thread."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made now if it isn't there."""
        if key in self._values:
            self._values.move_to_end(key)
            return self._values[key]
        value = make()
        self._values[key] = value
        if len(self._values) > self._size:
            self._values.popitem(last=False)
        return value

    def discard(self, key: K) -> None:
        """Forget a key, if it is there."""
        self._values.pop(key, None)

    def clear(self) -> None:
        """Forget all."""
        self._values.clear()
