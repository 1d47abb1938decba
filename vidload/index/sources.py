"""What an index is built from: files, folders, globs and lists (CSV, JSON Lines, Parquet), made into rows.

Nothing is opened here but the lists: whether a file is a video shows when it is demuxed.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from vidload.errors import ArgumentError, EmptySourceError
from vidload.index.lists import LIST_READERS, Rows, rows_of

__all__ = ["VIDEO_EXTENSIONS", "LabelFrom", "Source", "Sources", "resolve_sources"]

LabelFrom = Literal["none", "folder"]

# fmt: off
VIDEO_EXTENSIONS = frozenset([
    ".3g2", ".3gp", ".asf", ".avi", ".f4v", ".flv", ".h264", ".h265", ".hevc", ".ivf", ".m2ts", ".m2v", ".m4v",
    ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".mxf", ".ogm", ".ogv", ".ts", ".vob", ".webm", ".wmv",
])
# fmt: on
"""What counts as a video when a folder is searched. A file that is named itself may be called anything."""


@dataclass(frozen=True, slots=True)
class Source:
    """One row of the index to be.

    Attributes:
        path: The file, absolute.
        label: Class number or class name, None where there is none.
        extra: Further columns of the list the row comes from.
    """

    path: str
    label: str | int | None
    extra: Mapping[str, Any]


@dataclass(frozen=True)
class Sources(Sequence[Source]):
    """All rows of the index to be, in its order, kept by column: a million of them cost no object each.

    Attributes:
        paths: The files, absolute; a file may come several times.
        labels: Class number, class name or None of each row.
        extra: The further columns, with the types their lists gave them; null where a row's list has no such column.
    """

    paths: Sequence[str]
    labels: Sequence[str | int | None]
    extra: pa.Table

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        row = range(len(self))[row]
        extra = {name: self.extra[name][row].as_py() for name in self.extra.column_names}
        return Source(self.paths[row], self.labels[row], extra)

    def class_numbers(self) -> tuple[list[int], list[str]]:
        """Class number of each row (-1: none), and the names of the classes.

        Integer labels are used as they are and have no names. Names are numbered in sorted order, as torchvision's
        ImageFolder does.

        Raises:
            ArgumentError: If some labels are numbers and others names, or a number is below -1.
        """
        names = sorted({label for label in self.labels if isinstance(label, str)})
        numbers = [label for label in self.labels if isinstance(label, int)]
        if names and numbers:
            raise ArgumentError(
                f"labels: some are numbers ({numbers[0]}), others are names ({names[0]!r}); use one kind everywhere"
            )
        if numbers and min(numbers) < -1:
            raise ArgumentError(f"labels: {min(numbers)} is no class number; use 0 and up, -1 or nothing for no label")
        number_of: dict[str | int | None, int] = {name: number for number, name in enumerate(names)}
        number_of[None] = -1
        return [label if isinstance(label, int) else number_of[label] for label in self.labels], names


def resolve_sources(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    label_from: LabelFrom = "none",
    extensions: Iterable[str] = VIDEO_EXTENSIONS,
) -> Sources:
    """Find the videos that `sources` stand for.

    Each source is one of these, tried in this order:

    - a folder: searched with all its subfolders (links are followed) for files with one of `extensions`, in the order
      of their names; what is hidden (starts with a dot) is left out;
    - a list: ``.csv``, ``.jsonl``, ``.ndjson`` or ``.parquet`` with a column ``path``, if wanted ``label``, and any
      others, which are kept with their types. Relative paths are relative to the list's folder;
    - any other existing file: taken as a video;
    - a glob (``**`` for any depth), where nothing of exactly that name exists: the folders and videos it matches, in
      the order of their names; files of other endings only where the glob names the ending (``*.dat``, ``*.csv``).

    Args:
        sources: One of them, or several.
        label_from: ``"folder"`` labels what is found in a folder with the name of the first subfolder below it (none
            for files that lie in it directly), and a file given by itself with the name of its folder. Lists have a
            column for that.
        extensions: Endings, with the dot, that count as videos in folders.

    Raises:
        EmptySourceError: If a source doesn't exist or leads to no video.
        ArgumentError: If a list can't be read or has no column ``path``; if `label_from` isn't one of the two, or is
            ``"folder"`` and no video lies in a subfolder.
    """
    if label_from not in ("none", "folder"):
        raise ArgumentError(f'label_from={label_from!r}: give "none" or "folder"')
    if isinstance(sources, (str, os.PathLike)):
        sources = [sources]
    endings = frozenset(ending.lower() for ending in extensions)
    pieces: list[Rows] = []
    for source in sources:
        pieces.extend(_resolve(os.fspath(source), label_from, endings))
    if not pieces:
        raise EmptySourceError("sources: none given; give video files, folders, globs or lists of videos")
    return _merge(pieces)


def _resolve(source: str, label_from: LabelFrom, endings: frozenset[str]) -> Iterator[Rows]:
    if not source:
        raise EmptySourceError("sources: one of them is empty; give a file, a folder, a glob or a list of videos")
    if os.path.exists(source):
        yield _existing(source, label_from, endings)
    elif glob.has_magic(source):
        yield from _glob(source, label_from, endings)
    else:
        raise EmptySourceError(f"{source}: there is no such file or folder; check the path")


def _existing(source: str, label_from: LabelFrom, endings: frozenset[str]) -> Rows:
    if os.path.isdir(source):
        rows = _folder(source, label_from, endings)
        if not rows.labels:
            raise EmptySourceError(
                f"{source}: there is no video in this folder or below it (looked for {', '.join(sorted(endings))})"
            )
        if label_from == "folder" and not any(rows.labels):
            raise ArgumentError(
                f"{source}: labels are wanted from subfolders, but all videos lie in the folder itself; give the "
                "folder that holds one folder per class"
            )
        return rows
    reader = LIST_READERS.get(os.path.splitext(source)[1].lower())
    return reader(source) if reader is not None else _file(source, label_from)


def _file(source: str, label_from: LabelFrom) -> Rows:
    path = os.path.abspath(source)
    return rows_of([path], [os.path.basename(os.path.dirname(path)) if label_from == "folder" else None])


def _glob(source: str, label_from: LabelFrom, endings: frozenset[str]) -> Iterator[Rows]:
    ending = os.path.splitext(source)[1]
    any_file = bool(ending) and not glob.has_magic(ending)  # "*.dat" asks for such files, "*" for videos
    empty = True
    seen: set[str] = set()  # "**" matches folders and what is in them
    for match in sorted(glob.glob(source, recursive=True)):
        if os.path.isdir(match):
            rows = _folder(match, label_from, endings)
        elif any_file or os.path.splitext(match)[1].lower() in endings:
            rows = _existing(match, label_from, endings)
        else:
            continue
        keep = [row for row, path in enumerate(rows.table["path"].to_pylist()) if path not in seen]
        seen.update(rows.table["path"].to_pylist())
        if keep:
            empty = False
            yield Rows(rows.table.take(keep), [rows.labels[row] for row in keep])
    if empty:
        raise EmptySourceError(f"{source}: this glob matches no video; check it ('**' stands for any depth of folders)")


def _folder(folder: str, label_from: LabelFrom, endings: frozenset[str]) -> Rows:
    folder = os.path.abspath(folder)
    paths = list(_walk(folder, endings, frozenset()))
    if label_from == "none":
        return rows_of(paths, [None] * len(paths))
    below = [os.path.relpath(path, folder).split(os.sep) for path in paths]
    return rows_of(paths, [parts[0] if len(parts) > 1 else None for parts in below])


def _walk(folder: str, endings: frozenset[str], above: frozenset[tuple[int, int]]) -> Iterator[str]:
    try:
        status = os.stat(folder)
        with os.scandir(folder) as scan:
            entries = sorted((entry for entry in scan if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError as error:
        raise EmptySourceError(
            f"{folder}: this folder can't be searched ({error.strerror}); check its rights"
        ) from None
    identity = (status.st_dev, status.st_ino)
    if identity in above:  # a link to a folder that this one lies in
        return
    for entry in entries:
        if entry.is_dir():
            yield from _walk(entry.path, endings, above | {identity})
        elif os.path.splitext(entry.name)[1].lower() in endings:
            yield entry.path


def _merge(pieces: Sequence[Rows]) -> Sources:
    tables = [piece.table for piece in pieces]
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ArgumentError(f"the lists don't fit together: a column has a different type in each ({error})") from None
    paths = [os.fsdecode(path) for path in table["path"].to_pylist()]
    labels = [label for piece in pieces for label in piece.labels]
    return Sources(paths, labels, table.drop_columns(["path"]))
