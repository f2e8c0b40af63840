"""Rows in one process: one batch, or several if a column exceeds Arrow's limit."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from changeledger.kernels.in_memory import InMemory
from changeledger.kernels.rows import as_batch, count, summed, values_counted
from changeledger.model.errors import RowsTooLarge

SCHEMA = pa.schema([("value", pa.binary())])


@pytest.fixture
def more_than_2_gib() -> Iterator[pa.Table]:
    # 32-bit offsets end at 2 GiB, which 33 values of 64 MiB exceed. All values share one buffer.
    batch = pa.RecordBatch.from_arrays([pa.array([b"x" * (64 << 20)])], schema=SCHEMA)
    yield pa.Table.from_batches([batch] * 33)
    # Without this, the process keeps the memory until it ends.
    pa.default_memory_pool().release_unused()


def test_a_table_in_several_chunks_is_one_batch() -> None:
    batch = pa.RecordBatch.from_pydict({"value": [b"a", b"b"]}, schema=SCHEMA)
    assert as_batch(pa.Table.from_batches([batch, batch])).column(0).to_pylist() == [b"a", b"b", b"a", b"b"]
    assert as_batch(SCHEMA.empty_table()).num_rows == 0


def test_values_are_counted_over_all_batches() -> None:
    texts = InMemory(pa.table({"value": ["a", "b", "a"], "kind": ["x", "y", "x"]}))
    batches = [values_counted(texts, "kind").collected()] * 2
    assert summed(pa.concat_tables(batches)) == {"x": 4, "y": 2}
    assert summed(batches[0].schema.empty_table()) == {}


def test_rows_are_counted() -> None:
    batch = pa.RecordBatch.from_pydict({"value": [b"a", b"b"]}, schema=SCHEMA)
    assert count(InMemory(pa.Table.from_batches([batch, batch]))) == 4
    assert count(InMemory(SCHEMA.empty_table())) == 0


@pytest.mark.long
def test_rows_that_one_batch_cannot_hold_are_refused(more_than_2_gib: pa.Table) -> None:
    with pytest.raises(RowsTooLarge, match="33 rows have a column of more than 2 GiB"):
        as_batch(more_than_2_gib)


@pytest.mark.long
def test_a_kernel_goes_over_all_pieces(more_than_2_gib: pa.Table) -> None:
    def lengths(rows: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pc.binary_length(rows.column("value"))], names=["size"])

    sizes = InMemory(more_than_2_gib).through(lengths, pa.schema([("size", pa.int32())]))
    assert sizes.collected().num_rows == 33
