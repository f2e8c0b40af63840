"""The dispositions of a run's records that are in no ledger: counts by kind, rules, and selections."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from changeledger.audit.narrow_rows import Broken, Judged, narrow
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
        ("commit_lsn", pa.binary()),
    ]
)
_OF = ("table", "disposition", "reason")
# `is_named`: whether there is a `detail`.
KINDS: Final = pa.schema(
    [*((name, pa.string()) for name in _OF), ("is_named", pa.bool_()), ("n", pa.int64())]
)


def kinds(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Counts the rows of each kind in a batch."""
    parts = pa.table(
        {**{name: rows.column(name) for name in _OF}, "is_named": rows.column("detail").is_valid()}
    )
    counts = parts.group_by([*_OF, "is_named"]).aggregate([([], "count_all")])
    named = counts.rename_columns([name.replace("count_all", "n") for name in counts.column_names])
    return as_batch(named.select(KINDS.names).cast(KINDS))


def of_records(rows: pa.RecordBatch, feed: str, *, redact: bool) -> pa.RecordBatch:
    """Kernel of the rules for single records: `ROWS` in, `narrow_rows.ROWS` out.

    `feed`: the feed as a subject of the audit. `redact`: leaves out details, which may hold values.
    """
    asked = {
        "no_quarantined_records": equal(rows.column("disposition"), change.QUARANTINED),
        "shapes_fit_contracts": equal(rows.column("reason"), change.INCOMPATIBLE_SHAPE),
        "no_unpaired_images": equal(rows.column("reason"), change.BEFORE_WITHOUT_AFTER),
    }
    records = pa.Table.from_batches([rows])
    said = records.select(("table", "reason") if redact else ("table", "reason", "detail"))
    checks = {name: partial(_broken, said, is_broken) for name, is_broken in asked.items()}
    return as_batch(narrow(Judged(feed, records, position="source_position"), checks))


def _broken(said: pa.Table, is_broken: Bools) -> Broken:
    at = np.flatnonzero(is_broken)
    rows = said.take(pa.array(at)).to_pylist()
    return Broken(at, [": ".join(filter(None, row.values())) or "no reason" for row in rows])


def of_breaks(breaks: pa.RecordBatch, table: str) -> pa.RecordBatch:
    """Kernel of `image_chain`: the run's breaks of the table in, `narrow_rows.ROWS` out."""
    rows = pa.Table.from_batches([breaks])
    said = zip(rows.column("kind").to_pylist(), rows.column("columns").to_pylist(), strict=True)
    why = [f"{kind}: {', '.join(columns or ())}".removesuffix(": ") for kind, columns in said]
    judged = Judged(table, rows, "key", "source_position", "change_id")
    return as_batch(narrow(judged, {"image_chain": lambda: Broken(np.arange(len(rows)), why)}))


def of_disposition(rows: pa.RecordBatch, disposition: str) -> pa.RecordBatch:
    """Returns the records with this disposition."""
    is_that = pa.array(equal(rows.column("disposition"), disposition))
    return rows.filter(is_that).select(["source_position"])


def named_duplicates(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Selects the duplicates that name a change; `detail` is its id."""
    return rows.filter(pa.array(_repeats(rows) & valid(rows.column("detail"))))


def repeated_halves(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Selects the duplicates that repeat a half of an update."""
    return rows.filter(pa.array(_is_half(rows)))


def others(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the records of all rows except repeated halves."""
    return rows.filter(pa.array(~_is_half(rows))).select(["source_position"])


def _repeats(rows: pa.RecordBatch) -> Bools:
    return equal(rows.column("reason"), change.DELIVERED_AGAIN)


def _is_half(rows: pa.RecordBatch) -> Bools:
    return np.logical_and(_repeats(rows), ~valid(rows.column("detail")))
