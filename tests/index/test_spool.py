from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.index.videos import make_video
from vidload.errors import ArgumentError
from vidload.index import spool as spool_module
from vidload.index.format import FACTS, facts_of
from vidload.index.spool import RowSpool

ROWS = facts_of([make_video(number, packets) for number, packets in enumerate([3, 0, 1, 7, 0])])


def joined(*batches: pa.RecordBatch) -> pa.RecordBatch:
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch


@pytest.fixture(params=[1, 2, 512], ids="write {}".format)
def spool(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RowSpool:
    monkeypatch.setattr(spool_module, "_MANY_ROWS", request.param)
    return RowSpool(FACTS, str(tmp_path))


def test_rows_come_back_in_the_order_they_came(spool: RowSpool) -> None:
    with spool:
        assert [spool.append(ROWS.slice(2, 2)), spool.append(ROWS.slice(0, 0)), spool.append(ROWS)] == [0, 2, 2]
        rows = spool.batch()
    rows.validate(full=True)
    assert rows.equals(joined(ROWS.slice(2, 2), ROWS))


def test_an_empty_spool_gives_no_rows(spool: RowSpool) -> None:
    with spool:
        assert spool.batch().equals(ROWS.slice(0, 0))


def test_a_row_can_be_repeated_at_once_and_later(spool: RowSpool) -> None:
    with spool:
        places = [spool.append(ROWS.slice(row, 1)) for row in (0, 3)]
        again = [spool.repeat(row) for row in (*places, places[1], places[0])]
        again.append(spool.repeat(again[0]))
        rows = spool.batch()
    assert again == [2, 3, 4, 5, 6]
    assert rows.equals(joined(*[ROWS.slice(row, 1) for row in (0, 3, 0, 3, 3, 0, 0)]))


def test_a_batch_stays_as_it_is_when_more_rows_come(spool: RowSpool) -> None:
    with spool:
        spool.append(ROWS)
        before = spool.batch()
        spool.append(ROWS)
        spool.batch()
    assert before.equals(ROWS)


def test_nothing_is_left_in_the_folder(spool: RowSpool, tmp_path: Path) -> None:
    with spool:
        spool.append(ROWS)
        spool.batch()
        assert os.listdir(tmp_path) == []


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    rows = facts_of([make_video(packets=100_000)])
    with RowSpool(FACTS, str(tmp_path)) as spool:
        before = pa.total_allocated_bytes()
        for _ in range(40):
            spool.append(rows)
        batch = spool.batch()
        assert batch.nbytes > 100_000_000
        assert pa.total_allocated_bytes() - before < 1_000_000


def test_a_folder_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="missing: can't be written"):
        RowSpool(FACTS, str(tmp_path / "missing"))


def test_a_full_disk_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with RowSpool(FACTS, str(tmp_path)) as spool:
        monkeypatch.setattr(spool_module._Buffer, "write", fail)
        spool.append(ROWS)
        with pytest.raises(ArgumentError, match="No space left on device"):
            spool.batch()


def test_nulls_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([("x", pa.int64())])
    with RowSpool(schema, str(tmp_path)) as spool:
        spool.append(pa.RecordBatch.from_pydict({"x": pa.array([None], pa.int64())}))
        with pytest.raises(ValueError, match="nulls"):
            spool.batch()


def test_columns_are_views_of_files(spool: RowSpool) -> None:
    with spool:
        spool.append(ROWS)
        column = spool.batch()["packets"].values.field(0).to_numpy(zero_copy_only=True)
    assert not column.flags.writeable
    assert np.array_equal(column, ROWS["packets"].values.field(0).to_numpy())
