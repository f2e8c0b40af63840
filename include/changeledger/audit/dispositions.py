"""The dispositions of a run's records that are in no ledger: counted by kind, and chosen from."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels.arrow import RECORD, Bools, equal, valid
from changeledger.kernels.rows import as_batch
from changeledger.model import change

ROWS: Final = pa.schema(
    [
        ("table", pa.string()),
        ("source_position", RECORD),
        ("disposition", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
    ]
)
_OF = ("table", "disposition", "reason")
# `is_named`: does `detail` say something?
KINDS: Final = pa.schema(
    [*((name, pa.string()) for name in _OF), ("is_named", pa.bool_()), ("n", pa.int64())]
)


def kinds(rows: pa.RecordBatch) -> pa.RecordBatch:
    """How many rows of each kind a batch has."""
    parts = pa.table(
        {**{name: rows.column(name) for name in _OF}, "is_named": rows.column("detail").is_valid()}
    )
    found = parts.group_by([*_OF, "is_named"]).aggregate([([], "count_all")])
    named = found.rename_columns([name.replace("count_all", "n") for name in found.column_names])
    return as_batch(named.select(KINDS.names).cast(KINDS))


def chosen(rows: pa.RecordBatch, column: str, value: Any) -> pa.RecordBatch:
    """The rows whose column is that."""
    return rows.filter(pc.fill_null(pc.equal(rows.column(column), value), fill_value=False))


def named_duplicates(rows: pa.RecordBatch, table: str) -> pa.RecordBatch:
    """Of the table's duplicates, those that name a change; `detail` is its id."""
    return rows.filter(pa.array(_of(rows, table) & _repeats(rows) & valid(rows.column("detail"))))


def repeated_halves(rows: pa.RecordBatch, table: str) -> pa.RecordBatch:
    """Of the table's duplicates, those that repeat a half of an update."""
    return rows.filter(pa.array(_of(rows, table) & _is_half(rows)))


def others(rows: pa.RecordBatch, table: str) -> pa.RecordBatch:
    """The records of the table's other rows."""
    return rows.filter(pa.array(_of(rows, table) & ~_is_half(rows))).select(["source_position"])


def _of(rows: pa.RecordBatch, table: str) -> Bools:
    return equal(rows.column("table"), table)


def _repeats(rows: pa.RecordBatch) -> Bools:
    return equal(rows.column("reason"), change.DELIVERED_AGAIN)


def _is_half(rows: pa.RecordBatch) -> Bools:
    return np.logical_and(_repeats(rows), ~valid(rows.column("detail")))
