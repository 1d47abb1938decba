"""Lists of videos: CSV, JSON Lines and Parquet files with a column ``path``, read into rows."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from vidload.errors import ArgumentError, EmptySourceError

__all__ = ["LIST_READERS", "Rows", "rows_of"]


@dataclass(frozen=True)
class Rows:
    """Rows of one source.

    Attributes:
        table: Column ``path`` (absolute, as bytes: a file name needn't be text) and the further columns.
        labels: One per row.
    """

    table: pa.Table
    labels: Sequence[str | int | None]


def rows_of(paths: Sequence[str], labels: Sequence[str | int | None]) -> Rows:
    """Rows without further columns."""
    return Rows(pa.table({"path": _encode(paths)}), labels)


def _encode(paths: Sequence[str]) -> pa.Array:
    return pa.array([os.fsencode(path) for path in paths], pa.large_binary())


def read_csv(file: str) -> Rows:
    """Read a CSV file with a header; a column is of integers or floats where all its values are, else of strings."""
    import pyarrow.csv

    try:
        with open(file, encoding="utf-8-sig", newline="") as opened:
            names = next(csv.reader(opened), [])
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
        convert = pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.large_string()), null_values=[""], strings_can_be_null=True
        )
        table = pyarrow.csv.read_csv(file, parse_options=parse, convert_options=convert) if any(names) else pa.table({})
    except (OSError, UnicodeDecodeError, csv.Error, pa.ArrowInvalid) as error:
        raise _unreadable(file, "a CSV file in UTF-8, with commas and a header", error) from None
    columns = {name: column if name == "path" else _typed(column) for name, column in _distinct(file, table).items()}
    return _rows(file, columns)


def read_json_lines(file: str) -> Rows:
    """Read a file with one JSON object per line."""
    records: list[dict[str, Any]] = []
    try:
        with open(file, encoding="utf-8-sig") as opened:
            for number, line in enumerate(opened, 1):
                if line.strip():
                    record = json.loads(line)
                    if not isinstance(record, dict):
                        raise ValueError(f"line {number} is no JSON object")
                    records.append(record)
    except json.JSONDecodeError as error:
        raise _unreadable(file, "one JSON object per line", f"line {number}: {error.msg}") from None
    except (OSError, ValueError) as error:
        raise _unreadable(file, "one JSON object per line", error) from None
    columns = {}
    for name in dict.fromkeys(key for record in records for key in record):
        values = [record.get(name) for record in records]
        try:
            columns[name] = pa.chunked_array([pa.array(values)])
        except (ValueError, TypeError, OverflowError) as error:
            raise ArgumentError(f"{file}: column {name!r} has values of several types ({error})") from None
    return _rows(file, columns)


def read_parquet(file: str) -> Rows:
    """Read a Parquet file."""
    import pyarrow.parquet

    try:
        # Not read_table: that takes folders called "label=3" for a column.
        with pyarrow.parquet.ParquetFile(file) as opened:
            table = opened.read()
    except (OSError, pa.ArrowInvalid) as error:
        raise _unreadable(file, "a Parquet file", error) from None
    return _rows(file, _distinct(file, table))


LIST_READERS: Mapping[str, Callable[[str], Rows]] = {
    ".csv": read_csv,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".parquet": read_parquet,
}
"""Which function reads a list, by the ending of its name."""


def _unreadable(file: str, wanted: str, reason: object) -> ArgumentError:
    return ArgumentError(f"{file}: can't be read as a list of videos ({reason}); it has to be {wanted}")


def _distinct(file: str, table: pa.Table) -> dict[str, pa.ChunkedArray]:
    names = table.column_names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ArgumentError(f"{file}: column {twice[0]!r} comes more than once; give each column a name of its own")
    return dict(zip(names, table.columns, strict=True))


def _typed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    # Zeros in front are part of an identifier ("00123"), not of a number.
    if pc.any(pc.match_substring_regex(column, r"^\s|^[-+]?0[0-9xX]")).as_py():
        return column
    for numeric in (pa.int64(), pa.float64()):
        try:
            return column.cast(numeric)
        except pa.ArrowInvalid:
            continue
    return column


def _rows(file: str, columns: Mapping[str, pa.ChunkedArray]) -> Rows:
    if not columns or not len(next(iter(columns.values()))):
        raise EmptySourceError(f"{file}: this list of videos has no rows; write one row per video, with its 'path'")
    if "path" not in columns:
        raise ArgumentError(
            f"{file}: there is no column 'path'; the columns are {', '.join(map(repr, columns))}. "
            "Name the column that holds the videos' files 'path'"
        )
    folder = os.path.dirname(os.path.abspath(file))
    paths = []
    for number, path in enumerate(columns["path"].to_pylist(), 1):
        if not isinstance(path, str) or not path:
            raise ArgumentError(f"{file}: row {number} has no path ({path!r}); every row names a video file")
        paths.append(os.path.normpath(os.path.join(folder, path)))
    labels = _labels(file, columns["label"]) if "label" in columns else [None] * len(paths)
    extra = {name: _plain(column) for name, column in columns.items() if name not in ("path", "label")}
    return Rows(pa.table({"path": _encode(paths), **extra}), labels)


def _labels(file: str, column: pa.ChunkedArray) -> list[str | int | None]:
    labels: list[str | int | None] = []
    for number, value in enumerate(column.to_pylist(), 1):
        if value is None or value == "" or value != value:
            labels.append(None)
        elif isinstance(value, (str, int)):
            labels.append(value if isinstance(value, str) else int(value))
        elif (
            isinstance(value, float) and value.is_integer()
        ):  # whole numbers beside empty fields, as pandas writes them
            labels.append(int(value))
        else:
            raise ArgumentError(f"{file}: row {number} has label {value!r}; a label is a whole number or a name")
    return labels


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in a type that can be joined to any length and read back without pandas."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_string(kind):
        return column.cast(pa.large_string())
    if pa.types.is_binary(kind):
        return column.cast(pa.large_binary())
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    return column
