"""The narrow columns of a ledger, a history and current rows that the rules need."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from changeledger.kernels.arrow import INSTANT, NAMES, RECORD, batch_of, by_name, row_type
from changeledger.model.contract import Contract

# Columns of the ledger, unchanged.
OF_LEDGER: Final = (
    ("change_id", pa.string()), ("operation", pa.string()), ("sort_key", pa.binary()),
    ("commit_lsn", pa.binary()), ("change_lsn", pa.binary()), ("committed_at", INSTANT), ("flags", NAMES),
    ("source_position", RECORD), ("paired_source_position", RECORD), ("paired_change_id", pa.string()),
)  # fmt: skip
# In place of the images: whether each is there, and the key in it.
HAS_BEFORE, HAS_AFTER = "has_before", "has_after"
BEFORE_KEY, AFTER_KEY = "before_key", "after_key"

# Columns of intervals; NULL in current rows.
OF_INTERVALS: Final = (
    ("_valid_from", INSTANT), ("_valid_to", INSTANT), ("_next_sort_key", pa.binary()),
    ("_is_deleted", pa.bool_()),
)  # fmt: skip


def changes_schema(contract: Contract) -> pa.Schema:
    """Returns the schema of ledger rows."""
    key = row_type(contract.key)
    flag = pa.bool_()
    images = [(HAS_BEFORE, flag), (BEFORE_KEY, key), (HAS_AFTER, flag), (AFTER_KEY, key)]
    return pa.schema([("key", key), ("previous_key", key), *OF_LEDGER, *images])


def built_schema(contract: Contract) -> pa.Schema:
    """Returns the schema of intervals and current rows."""
    return pa.schema(
        [
            ("key", row_type(contract.key)), ("_change_id", pa.string()),
            ("_sort_key", pa.binary()), ("_window_id", pa.string()),
            *OF_INTERVALS,
        ]
    )  # fmt: skip


def ledger_read(contract: Contract) -> pa.Schema:
    """Returns the schema to read from a ledger: of its images, only the keys."""
    key = row_type(contract.key)
    return pa.schema([("key", key), ("previous_key", key), *OF_LEDGER, ("before", key), ("after", key)])


def of_ledger(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Converts ledger rows (`ledger_read`) to the columns of `changes_schema`."""
    before, after = rows.column("before"), rows.column("after")
    images = {
        HAS_BEFORE: before.is_valid(), BEFORE_KEY: before, HAS_AFTER: after.is_valid(), AFTER_KEY: after,
    }  # fmt: skip
    return batch_of({**by_name(rows), **images}, schema)


def rows_read(contract: Contract, *, intervals: bool) -> pa.Schema:
    """Returns the schema to read from a history, or from current rows."""
    fields = [field for field in built_schema(contract) if field.name != "key"]
    of_intervals = dict(OF_INTERVALS)
    more = [field for field in fields if intervals or field.name not in of_intervals]
    return pa.schema([*row_type(contract.key), *more])


def as_built(rows: pa.RecordBatch, contract: Contract) -> pa.RecordBatch:
    """Converts intervals or current rows (`rows_read`) to the columns of `built_schema`."""
    cells = [rows.column(c.name) for c in contract.key]
    key = pa.StructArray.from_arrays(cells, fields=list(row_type(contract.key)))
    return batch_of({**by_name(rows), "key": key}, built_schema(contract))
