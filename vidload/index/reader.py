"""Reading an index: every video's facts, straight from the mapped file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fractions import Fraction
from operator import index as as_int
from types import TracebackType
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from vidload.errors import ArgumentError, StaleIndexError
from vidload.index.arrays import numpy_view
from vidload.index.format import EXTRA_PREFIX, PACKET_FIELDS, IndexFile
from vidload.index.rows import offsets_of
from vidload.index.video import Video

__all__ = ["VideoIndex"]

# Video's attributes by the kind of column they are kept in.
# fmt: off
_NUMBERS = (
    "file_size", "mtime_ns", "stream_index", "width", "height", "rotation", "color_range", "color_space",
    "color_primaries", "color_trc", "bits_per_coded_sample", "fps", "duration", "label",
)
_FLAGS = ("mirrored", "constant_fps", "offsets_exact")
_TEXTS = ("container", "codec", "codec_tag", "pix_fmt")
_OTHERS = ("num_frames", "sample_aspect_num", "sample_aspect_den", "time_base_num", "time_base_den")
# fmt: on


class VideoIndex:
    """The videos of an index file, by row number.

    The file is mapped into memory: opening takes as long for a million videos as for ten, no object exists per video,
    and all processes that open it share one copy. Safe to use from several threads. Sent to another process, it travels
    as its path and is opened there.

    Args:
        path: The index file, made by `vidload.build_index` or ``vidload index``.

    Raises:
        IndexFormatError: If the file doesn't exist, isn't a whole index, or has another format version.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.path.abspath(os.fspath(path))
        file = IndexFile(self._path)
        self._file: IndexFile | None = file
        self._len: int = file.batch.num_rows
        self._columns = [name[len(EXTRA_PREFIX) :] for name in file.batch.schema.names if name.startswith(EXTRA_PREFIX)]
        self._numbers = {name: file.numbers(name) for name in (*_NUMBERS, *_FLAGS, *_OTHERS)}
        self._extra = {name: file.batch[EXTRA_PREFIX + name] for name in self._columns}
        packets = file.batch["packets"]
        self._packet_bounds = offsets_of(packets)
        self._packets = {f"packet_{name}": numpy_view(packets.values.field(k)) for k, name in enumerate(PACKET_FIELDS)}
        self._lists = {
            name: (offsets_of(file.batch[name]), numpy_view(file.batch[name].values))
            for name in ("frame_packets", "packet_crc32")
        }

    @property
    def path(self) -> str:
        """The index file, absolute."""
        return self._path

    @property
    def fingerprint(self) -> str:
        """Hex digest of what makes the samples: paths as stored, file sizes, numbers of frames, labels and classes."""
        return self._open().fingerprint

    @property
    def classes(self) -> list[str]:
        """Names of the classes by number; empty where there are no labels, or only numbers."""
        return self._open().classes

    @property
    def columns(self) -> list[str]:
        """Names of the further columns that came with the videos; their values are in `Video.extra`."""
        return list(self._columns)

    @property
    def num_frames(self) -> npt.NDArray[np.int64]:
        """int64[videos], frames that are shown; a read-only view of the map."""
        return self._open().numbers("num_frames")

    @property
    def duration(self) -> npt.NDArray[np.float64]:
        """float64[videos], seconds; a read-only view of the map."""
        return self._open().numbers("duration")

    @property
    def fps(self) -> npt.NDArray[np.float64]:
        """float64[videos], average frames per second; a read-only view of the map."""
        return self._open().numbers("fps")

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """int64[videos], class numbers, -1 for none; a read-only view of the map."""
        return self._open().numbers("label")

    @property
    def file_size(self) -> npt.NDArray[np.int64]:
        """int64[videos], bytes; a read-only view of the map."""
        return self._open().numbers("file_size")

    def __len__(self) -> int:
        return self._len

    def __getitem__(self, row: SupportsIndex) -> Video:
        """The video of a row; its arrays are read-only views of the map.

        Raises:
            IndexError: If there is no such row. Negative rows count from the end.
        """
        file = self._open()
        number = as_int(row)
        if not -self._len <= number < self._len:
            raise IndexError(f"{self._path}: there is no video {number}; the index holds {self._len}")
        number %= self._len
        file.check(number)
        packets = slice(self._packet_bounds[number], self._packet_bounds[number + 1])
        facts: dict[str, Any] = {name: self._numbers[name][number].item() for name in _NUMBERS}
        facts.update((name, bool(self._numbers[name][number])) for name in _FLAGS)
        facts.update((name, file.text(name, number).decode("utf-8", "replace")) for name in _TEXTS)
        facts["header"] = file.text("header", number)
        facts.update((name, values[packets]) for name, values in self._packets.items())
        facts.update((name, values[ends[number] : ends[number + 1]]) for name, (ends, values) in self._lists.items())
        return Video(
            path=file.video_path(number),
            sample_aspect_ratio=self._fraction("sample_aspect", number),
            time_base=self._fraction("time_base", number),
            extra={name: self._value(name, column, number) for name, column in self._extra.items()},
            id=number,
            **facts,
        )

    def __iter__(self) -> Iterator[Video]:
        return (self[row] for row in range(self._len))

    def __enter__(self) -> VideoIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"VideoIndex({self._path!r}, {self._len} videos)"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._path, self.fingerprint)

    def close(self) -> None:
        """Let go of the map; it ends with the last video or column that still views it."""
        self._file = None
        for views in (self._numbers, self._extra, self._packets, self._lists):
            views.clear()
        self._packet_bounds = np.empty(0, np.int64)

    def _open(self) -> IndexFile:
        if self._file is None:
            raise ArgumentError(f"{self._path}: this VideoIndex was closed; open it again with VideoIndex(path)")
        return self._file

    def _value(self, name: str, column: pa.Array, row: int) -> Any:
        one = column.slice(row, 1)
        try:
            one.validate(full=True)
        except pa.ArrowException:
            raise self._open().damaged(f" at column {name!r} of video {row}") from None
        return one[0].as_py()

    def _fraction(self, name: str, row: int) -> Fraction:
        return Fraction(int(self._numbers[f"{name}_num"][row]), int(self._numbers[f"{name}_den"][row]))


def _reopen(path: str, fingerprint: str) -> VideoIndex:
    index = VideoIndex(path)
    if index.fingerprint != fingerprint:
        raise StaleIndexError(
            f"{path}: the index was rebuilt with other videos since it was opened; open it again and start anew"
        )
    return index
