"""Builds decoded batches: the changes, positions and outcomes of raw Kafka messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from changeledger.kernels.arrow import (
    HEADERS,
    MESSAGE,
    RECORD,
    Indices,
    as_schema,
    ledger_schema,
    places,
    same,
)
from changeledger.model import change
from changeledger.model.contract import Contract

# The columns of a decoded batch beside the ledger's.
OUTCOME = (
    ("disposition", pa.string()),
    ("reason", pa.string()),
    ("detail", pa.string()),
    # The raw record, if it is no change; the quarantine keeps it.
    ("raw_key", pa.binary()),
    ("raw_value", pa.binary()),
    ("raw_headers", HEADERS),
)


class Outcome(NamedTuple):
    """The disposition of a record that is no change. `detail`: at most 500 characters."""

    disposition: str
    reason: str | None = None
    detail: str | None = None


def not_in_feed(table: str) -> Outcome:
    """Returns the outcome of a change of a table that the feed does not list, but may list later."""
    return Outcome(change.CONTROL, change.TABLE_NOT_IN_FEED, table[:500])


@lru_cache(maxsize=256)
def decoded_schema(contract: Contract) -> pa.Schema:
    """Returns the schema of a decoded batch, which has one row per record in the order of the raw batch."""
    return pa.schema([*ledger_schema(contract), *OUTCOME])


# The schema of a decoded batch of records that belong to no table.
UNCHANGED = pa.schema([("source_position", RECORD), *OUTCOME])


def as_messages(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch in the schema `arrow.MESSAGE`, however its lists name their parts."""
    return as_schema(batch, MESSAGE)


def record(batch: pa.RecordBatch) -> pa.StructArray:
    """Returns the messages' positions in their source."""
    partition = batch.column("partition")
    cells = [batch.column("topic"), partition, batch.column("offset"), pa.nulls(len(partition), pa.binary())]
    return pa.StructArray.from_arrays(cells, fields=list(RECORD))


def outcomes(batch: pa.RecordBatch, rows: Sequence[int], row_outcomes: Sequence[Outcome]) -> list[pa.Array]:
    """Returns the columns of `OUTCOME`: `rows` have `row_outcomes`, all others are changes."""
    size = batch.num_rows
    if not rows:
        return [same(change.CHANGE, size), *(pa.nulls(size, kind) for _, kind in OUTCOME[1:])]
    at = np.array(rows, np.int64)
    where = places(at, size)
    disposition, reason, detail = (
        pa.array(column, pa.string()) for column in zip(*row_outcomes, strict=True)
    )
    raw = [batch.column(name).take(pa.array(at)).take(where) for name in ("key", "value", "headers")]
    return [disposition.take(where).fill_null(change.CHANGE), reason.take(where), detail.take(where), *raw]


def decoded(
    raw: pa.RecordBatch, canonical: pa.RecordBatch, rows: Indices, others: Mapping[int, Outcome],
    contract: Contract,
) -> pa.RecordBatch:  # fmt: skip
    """Returns a decoded batch of `raw`: `canonical` changes for `rows`, outcomes for the others."""
    schema = decoded_schema(contract)
    columns = spread(canonical.columns, rows, raw.num_rows)
    columns[schema.get_field_index("source_position")] = record(raw)
    columns += outcomes(raw, list(others), list(others.values()))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def unchanged(batch: pa.RecordBatch, row_outcomes: Sequence[Outcome]) -> pa.RecordBatch:
    """Returns a decoded batch of records that belong to no table, with one outcome each."""
    columns = [record(batch), *outcomes(batch, range(batch.num_rows), row_outcomes)]
    return pa.RecordBatch.from_arrays(columns, schema=UNCHANGED)


def spread(columns: Sequence[pa.Array], rows: Indices, size: int) -> list[pa.Array]:
    """Extends columns with values for some rows of a batch to all of its rows."""
    if len(rows) == size:
        return list(columns)
    where = places(rows, size)
    return [column.take(where) for column in columns]
