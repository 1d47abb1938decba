"""Some of the videos of an index, as an index of their own."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from vidload.index.format import EXTRA_PREFIX, FACTS, IndexFile, write_index

__all__ = ["write_subset"]


def write_subset(path: str, rows: Sequence[int], out: str) -> None:
    """Write an index of some rows of another one, with their labels and further columns.

    Args:
        path: The index.
        rows: Which of its videos, by number.
        out: The index to write.

    Raises:
        IndexFormatError: If the index can't be read, or is damaged.
        ArgumentError: If `out` can't be written.
    """
    file = IndexFile(path)
    file.validate()
    kept = pa.array(rows, pa.int64())
    extra = [name for name in file.batch.schema.names if name.startswith(EXTRA_PREFIX)]
    write_index(
        out,
        pa.RecordBatch.from_arrays([file.batch[name].take(kept) for name in FACTS.names], schema=FACTS),
        paths=[file.video_path(row) for row in rows],
        labels=file.numbers("label")[list(rows)].tolist(),
        classes=file.classes,
        extra=pa.table({name[len(EXTRA_PREFIX) :]: file.batch[name].take(kept) for name in extra}) if extra else None,
        stream=file.choice,
    )
