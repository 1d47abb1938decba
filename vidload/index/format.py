"""How an index lies on disk: one Arrow IPC file that holds one record batch, with one row per video.

One batch, so that every column of all videos is one contiguous piece of the mapped file: opening is the same work for
any number of videos, a column is a numpy view that costs no memory, and a row is found by its number. The columns are
`path` and `label`, the facts (`FACTS`), a checksum of all these, and those of the user's lists under ``extra.``. Paths
are bytes, as file names are, and relative to the index file's folder where the video lies below it, so that both can be
moved together. Everything else (version, class names, fingerprint) stands in the schema's metadata.

Nothing is compressed and nothing is pickled; any Arrow library can read the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from vidload.errors import ArgumentError, IndexFormatError
from vidload.index.arrays import array_of_bytes, array_of_lists, array_of_numbers, numpy_view
from vidload.index.rows import RowBytes, offsets_of
from vidload.index.video import IntArray, Video

__all__ = [
    "EXTRA_PREFIX",
    "FACTS",
    "FORMAT",
    "VERSION",
    "IndexFile",
    "facts_of",
    "looks_like_index",
    "numpy_view",
    "write_index",
]

FORMAT = "vidload index"
VERSION = 2
EXTRA_PREFIX = "extra."

# Truth values are uint8 rather than Arrow's bool, whose bits numpy can't view.
FACTS = pa.schema(
    [
        ("file_size", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("container", pa.large_string()),
        ("stream_index", pa.int32()),
        ("codec", pa.large_string()),
        ("codec_tag", pa.large_string()),
        ("pix_fmt", pa.large_string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("rotation", pa.int32()),
        ("mirrored", pa.uint8()),
        ("sample_aspect_num", pa.int64()),
        ("sample_aspect_den", pa.int64()),
        ("color_range", pa.int32()),
        ("color_space", pa.int32()),
        ("color_primaries", pa.int32()),
        ("color_trc", pa.int32()),
        ("bits_per_coded_sample", pa.int32()),
        ("time_base_num", pa.int64()),
        ("time_base_den", pa.int64()),
        ("fps", pa.float64()),
        ("constant_fps", pa.uint8()),
        ("duration", pa.float64()),
        ("offsets_exact", pa.uint8()),
        ("num_frames", pa.int64()),
        ("header", pa.large_binary()),
        (
            "packets",
            pa.large_list(
                pa.struct(
                    [
                        pa.field("pts", pa.int64(), nullable=False),
                        pa.field("dts", pa.int64(), nullable=False),
                        pa.field("pos", pa.int64(), nullable=False),
                        pa.field("size", pa.int32(), nullable=False),
                        pa.field("flags", pa.uint8(), nullable=False),
                    ]
                )
            ),
        ),
        ("frame_packets", pa.large_list(pa.int32())),
        ("packet_crc32", pa.large_list(pa.uint32())),
    ]
)
"""What is known of each video by demuxing it: `Video`'s attributes but the user's own, path, label and extra."""

PACKET_FIELDS = tuple(FACTS.field("packets").type.value_type.field(k).name for k in range(5))

_DERIVED: Mapping[str, Callable[[Video], Any]] = {
    "sample_aspect_num": lambda video: video.sample_aspect_ratio.numerator,
    "sample_aspect_den": lambda video: video.sample_aspect_ratio.denominator,
    "time_base_num": lambda video: video.time_base.numerator,
    "time_base_den": lambda video: video.time_base.denominator,
}


def facts_of(videos: Sequence[Video]) -> pa.RecordBatch:
    """The videos' facts as rows of the schema `FACTS`."""
    return pa.RecordBatch.from_arrays([_column(videos, field.name, field.type) for field in FACTS], schema=FACTS)


def _column(videos: Sequence[Video], name: str, kind: pa.DataType) -> pa.Array:
    if name == "packets":
        fields = list(kind.value_type)
        columns = [
            _joined([getattr(video, f"packet_{field.name}") for video in videos], field.type) for field in fields
        ]
        packets = pa.StructArray.from_arrays(columns, fields=fields)
        return array_of_lists([video.packet_pts for video in videos], packets, kind)
    if name in ("frame_packets", "packet_crc32"):
        lists = [getattr(video, name) for video in videos]
        return array_of_lists(lists, _joined(lists, kind.value_type), kind)
    value_of = _DERIVED.get(name) or attrgetter(name)
    values = [value_of(video) for video in videos]
    if kind == pa.large_string():
        return array_of_bytes([value.encode() for value in values], kind)
    return array_of_bytes(values, kind) if kind == pa.large_binary() else array_of_numbers(values, kind)


def _joined(arrays: Sequence[IntArray], kind: pa.DataType) -> pa.Array:
    return array_of_numbers(np.concatenate([*arrays, np.empty(0, np.uint8)]), kind)


def looks_like_index(path: str) -> bool:
    """Whether a file begins as an Arrow IPC file does."""
    try:
        with open(path, "rb") as file:
            return file.read(6) == b"ARROW1"
    except OSError:
        return False


def _stored_path(path: str, folder: str) -> str:
    """How an index in `folder` names the file `path` (both absolute)."""
    inside = folder.rstrip(os.sep) + os.sep
    return path[len(inside) :] if path.startswith(inside) else path


def write_index(
    out: str,
    facts: pa.RecordBatch,
    *,
    paths: Sequence[str],
    labels: Sequence[int],
    classes: Sequence[str] = (),
    extra: pa.Table | None = None,
    stream: int | None = None,
) -> None:
    """Write an index: to a temporary name beside `out`, then renamed, so that there is never half an index.

    Args:
        out: The index file.
        facts: Of each video, as of `FACTS`.
        paths: Of each video, absolute.
        labels: Class number of each video, -1 for none.
        classes: Names of the classes by number.
        extra: Further columns of each video.
        stream: Which stream was asked for; None for the best of each file.

    Raises:
        ArgumentError: If `out` can't be written.
    """
    out = os.path.abspath(out)
    folder = os.path.dirname(out)
    stored = [os.fsencode(_stored_path(path, folder)) for path in paths]
    columns = {"path": array_of_bytes(stored, pa.large_binary()), "label": array_of_numbers(labels, pa.int64())}
    columns.update(zip(FACTS.names, facts.columns, strict=True))
    metadata = {
        "vidload.format": FORMAT,
        "vidload.version": str(VERSION),
        "vidload.rows": str(facts.num_rows),
        "vidload.classes": json.dumps(list(classes)),
        "vidload.stream": json.dumps(stream),
        "vidload.fingerprint": _fingerprint(columns, classes),
    }
    sums = RowBytes(columns)
    columns["row_crc32"] = array_of_numbers([sums.sum(row) for row in range(facts.num_rows)], pa.uint32())
    if extra is not None:
        columns.update((EXTRA_PREFIX + name, _contiguous(extra[name])) for name in extra.column_names)
    batch = pa.RecordBatch.from_pydict(columns).replace_schema_metadata(metadata)
    temporary = os.path.join(folder, f".{os.path.basename(out)}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            options = pa.ipc.IpcWriteOptions(allow_64bit=True)  # more than 2**31 packets in all are possible
            with pa.ipc.new_file(file, batch.schema, options=options) as writer:
                writer.write_batch(batch)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, out)
    except OSError as error:
        raise ArgumentError(
            f"{out}: the index can't be written ({error}); check the folder and its free space"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def _contiguous(column: pa.ChunkedArray) -> pa.Array:
    joined = column.combine_chunks()  # an Array or, of some versions and types, a ChunkedArray
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined


def _fingerprint(columns: Mapping[str, pa.Array], classes: Sequence[str]) -> str:
    digest = hashlib.sha256(json.dumps([FORMAT, VERSION, *classes]).encode())
    for name in ("path", "file_size", "num_frames", "label"):
        for buffer in columns[name].buffers()[1:]:
            digest.update(buffer or b"")
    return digest.hexdigest()


class IndexFile:
    """An index file, mapped: its one record batch, and what its metadata says.

    Args:
        path: The index file.

    Raises:
        IndexFormatError: If the file doesn't exist, isn't a whole index, or has another format version.
    """

    def __init__(self, path: str) -> None:
        rebuild = "build it anew with `vidload index`"
        try:
            with pa.ipc.open_file(pa.memory_map(path)) as reader:
                metadata: Mapping[bytes, bytes] = reader.schema.metadata or {}
                if metadata.get(b"vidload.format") != FORMAT.encode():
                    raise IndexFormatError(f"{path}: this Arrow file is no index of videos; give an index or {rebuild}")
                found = metadata[b"vidload.version"].decode()
                if found != str(VERSION):
                    raise IndexFormatError(
                        f"{path}: the index has format version {found}, this vidload reads version {VERSION}; {rebuild}"
                    )
                self.batch: pa.RecordBatch = reader.get_batch(0)
            names = ("path", "label", *FACTS.names)
            self._facts = [self.batch[name] for name in FACTS.names]
            self._rows = RowBytes({name: self.batch[name] for name in names})
            self._sums = numpy_view(self.batch["row_crc32"])
            rows = int(metadata[b"vidload.rows"])
        except FileNotFoundError:
            raise IndexFormatError(f"{path}: there is no such index; {rebuild}") from None
        except (pa.ArrowException, OSError, KeyError, ValueError, TypeError, AttributeError, SystemError) as error:
            if isinstance(error, IndexFormatError):
                raise
            reason = "cut short or damaged" if looks_like_index(path) else "no index of videos"
            raise IndexFormatError(f"{path}: the file is {reason} ({error}); {rebuild}") from None
        if self.batch.num_rows != rows:
            raise IndexFormatError(f"{path}: the index doesn't hold as many videos as it says; {rebuild}")
        self._metadata = metadata
        self._path = path
        self._folder = os.path.dirname(os.path.abspath(path))
        self._checked = np.zeros(rows, bool)

    def check(self, row: int) -> None:
        """Make sure, once for each row, that it is as it was written.

        Raises:
            IndexFormatError: If it isn't.
        """
        if self._checked[row]:
            return
        packets, frames = self.batch["packets"], self.batch["frame_packets"]
        ends, places = offsets_of(packets), offsets_of(frames)
        numbers = numpy_view(frames.values)[max(places[row], 0) : max(places[row + 1], 0)]
        whole = self._rows.sum(row) == self._sums[row] and len(numbers) == self.numbers("num_frames")[row]
        if not whole or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < ends[row + 1] - ends[row]):
            raise self.damaged(f" at video {row}")
        self._checked[row] = True

    def text(self, name: str, row: int) -> bytes:
        """One value of a column of strings or bytes."""
        return self._rows.text(name, row)

    def video_path(self, row: int) -> str:
        """The file of a row, absolute."""
        return os.path.join(self._folder, os.fsdecode(self._rows.text("path", row)))

    def facts(self, row: int) -> pa.RecordBatch:
        """One row as of `FACTS`.

        Raises:
            IndexFormatError: If it isn't as it was written.
        """
        self.check(row)
        try:
            return pa.RecordBatch.from_arrays([column.slice(row, 1) for column in self._facts], schema=FACTS)
        except pa.ArrowException:
            raise self.damaged(f" at video {row}") from None

    def validate(self) -> None:
        """Make sure of all rows and of the user's columns, which takes as long as reading them.

        Raises:
            IndexFormatError: If something isn't as it was written.
        """
        for row in range(self.batch.num_rows):
            self.check(row)
        try:
            self.batch.validate(full=True)
        except pa.ArrowException:
            raise self.damaged() from None

    def damaged(self, where: str = "") -> IndexFormatError:
        """The error for a place in it that isn't as it was written."""
        return IndexFormatError(f"{self._path}: the index is damaged{where}; build it anew with `vidload index`")

    @property
    def fingerprint(self) -> str:
        """Hash of what makes the videos what they are: paths as stored, sizes, numbers of frames, labels."""
        return self._metadata[b"vidload.fingerprint"].decode()

    @property
    def classes(self) -> list[str]:
        """Names of the classes by number; empty where labels have no names."""
        names: list[str] = json.loads(self._metadata[b"vidload.classes"])
        return names

    @property
    def choice(self) -> int | None:
        """Which stream was asked for; None for the best of each file."""
        number: int | None = json.loads(self._metadata[b"vidload.stream"])
        return number

    def numbers(self, name: str) -> npt.NDArray[Any]:
        """A column of numbers as a read-only numpy view of the map."""
        return numpy_view(self.batch[name])
