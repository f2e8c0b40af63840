"""The narrow columns of a ledger, a history and current rows that the rules need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from changeledger.kernels.arrow import (
    INSTANT,
    NAMES,
    RECORD,
    batch_of,
    by_name,
    history_schema,
    row_type,
)
from changeledger.kernels.hashed import row_hash
from changeledger.model import change
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
    """Returns the schema of intervals and current rows. `cells`: a hash of all, NULL if they are not read."""
    return pa.schema(
        [
            ("key", row_type(contract.key)), ("_change_id", pa.string()),
            ("_sort_key", pa.binary()), ("_window_id", pa.string()),
            *OF_INTERVALS, ("cells", pa.int64()),
        ]
    )  # fmt: skip


def cells_of(contract: Contract) -> tuple[str, ...]:
    """Returns the columns of current rows, in which each equals its open interval."""
    return tuple(name for name, _ in change.current_columns(contract))


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


def rows_read(contract: Contract, *, intervals: bool, whole: bool) -> pa.Schema:
    """Returns the schema to read from a history, or from current rows. `whole`: with all cells."""
    of_intervals = dict(OF_INTERVALS)
    narrow = [name for name in built_schema(contract).names if name not in {"key", "cells", *of_intervals}]
    names = [*narrow, *(cells_of(contract) if whole else ()), *(of_intervals if intervals else ())]
    return of_rows(contract, names)


def of_rows(contract: Contract, names: Iterable[str]) -> pa.Schema:
    """Returns the schema of some columns of a history or of current rows, and those of the key."""
    schema, key = history_schema(contract), (column.name for column in contract.key)
    return pa.schema([schema.field(name) for name in dict.fromkeys((*key, *names))])


def as_built(rows: pa.RecordBatch, contract: Contract, *, whole: bool) -> pa.RecordBatch:
    """Converts intervals or current rows (`rows_read`) to the columns of `built_schema`."""
    keys = [rows.column(c.name) for c in contract.key]
    key = pa.StructArray.from_arrays(keys, fields=list(row_type(contract.key)))
    cells = row_hash([*map(rows.column, cells_of(contract))]).view(np.int64) if whole else None
    return batch_of({**by_name(rows), "key": key, "cells": cells}, built_schema(contract))
