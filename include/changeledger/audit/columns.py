"""The narrow columns of a ledger, a history and current rows that the rules look at."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from changeledger.kernels.arrow import INSTANT, NAMES, RECORD, row_type
from changeledger.model.contract import Contract

# Of the ledger, as they are there.
OF_LEDGER: Final = (
    ("change_id", pa.string()), ("operation", pa.string()), ("sort_key", pa.binary()),
    ("commit_lsn", pa.binary()), ("change_lsn", pa.binary()), ("committed_at", INSTANT), ("flags", NAMES),
    ("source_position", RECORD), ("paired_source_position", RECORD), ("paired_change_id", pa.string()),
)  # fmt: skip
# Instead of its images: are they there, and the keys inside them.
HAS_BEFORE, HAS_AFTER = "has_before", "has_after"
BEFORE_KEY, AFTER_KEY = "before_key", "after_key"
IMAGES: Final = ((HAS_BEFORE, BEFORE_KEY), (HAS_AFTER, AFTER_KEY))

# Of intervals; NULL in current rows.
OF_INTERVALS: Final = (
    ("_valid_from", "timestamp", INSTANT), ("_valid_to", "timestamp", INSTANT),
    ("_next_sort_key", "binary", pa.binary()), ("_is_deleted", "boolean", pa.bool_()),
)  # fmt: skip


def changes_schema(contract: Contract) -> pa.Schema:
    """Of ledger rows."""
    key = row_type(contract.key)
    images = [field for has, own in IMAGES for field in ((has, pa.bool_()), (own, key))]
    return pa.schema([("key", key), ("previous_key", key), *OF_LEDGER, *images])


def built_schema(contract: Contract) -> pa.Schema:
    """Of intervals and current rows."""
    return pa.schema(
        [
            ("key", row_type(contract.key)), ("_change_id", pa.string()),
            ("_sort_key", pa.binary()), ("_window_id", pa.string()),
            *((name, kind) for name, _, kind in OF_INTERVALS),
        ]
    )  # fmt: skip


def ledger_read(contract: Contract) -> pa.Schema:
    """What is read of a ledger: of its images, their keys."""
    key = row_type(contract.key)
    return pa.schema([("key", key), ("previous_key", key), *OF_LEDGER, ("before", key), ("after", key)])


def of_ledger(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Ledger rows (`ledger_read`) in the columns of `changes_schema`."""
    images = zip(IMAGES, (rows.column("before"), rows.column("after")), strict=True)
    columns = {
        name: cells for (has, own), side in images for name, cells in ((has, side.is_valid()), (own, side))
    }
    columns |= {name: rows.column(name) for name in rows.schema.names}
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def rows_read(contract: Contract, *, intervals: bool) -> pa.Schema:
    """What is read of a history, or of current rows."""
    own = [field for field in built_schema(contract) if field.name != "key"]
    of_intervals = {name for name, _, _ in OF_INTERVALS}
    more = [field for field in own if intervals or field.name not in of_intervals]
    return pa.schema([*row_type(contract.key), *more])


def as_built(rows: pa.RecordBatch, contract: Contract) -> pa.RecordBatch:
    """Intervals or current rows (`rows_read`) in the columns of `built_schema`."""
    schema, names = built_schema(contract), set(rows.schema.names)
    keys = [rows.column(c.name) for c in contract.key]
    derived = {"key": pa.StructArray.from_arrays(keys, fields=list(row_type(contract.key)))}
    columns = [
        derived.get(f.name) or (rows.column(f.name) if f.name in names else pa.nulls(len(rows), f.type))
        for f in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
