"""Rules for single change ids: new ones, published ones, and those that duplicates repeat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.audit.narrow_rows import NARROW, ROWS, Broken, Judged, each_of, narrow, repeated, rows_that
from changeledger.audit.record_sums import ENTRIES, hashes
from changeledger.kernels import order
from changeledger.kernels.arrow import RECORD, Bools, batch_of, by_name, column, flags_of, table_of, valid
from changeledger.model import change

# Inputs: the ids of the run's changes; rows of the published ledger that have one of them; the run's
# duplicates that name a change; ids of other runs' changes in the ledger, where duplicates name them.
NEW: Final = "new"
PUBLISHED: Final = "published"
DUPLICATES: Final = "duplicates"
STAYED: Final = "stayed"
# Outputs, besides `narrow_rows.NARROW`: the records of published halves, to take off the run's sums; the ids
# of published halves that the run has joined.
EARLIER: Final = "earlier"
JOINED: Final = "joined"

# `is_change`: false for the id of the half that an update of a key has joined. `is_joined`: whether the
# change is such an update.
NEW_IDS: Final = pa.schema(
    [
        ("id", pa.string()),
        ("source_position", RECORD),
        ("hash", pa.int64()),
        ("is_change", pa.bool_()),
        ("is_joined", pa.bool_()),
    ]
)
IDS: Final = pa.schema([("id", pa.string())])
PUBLISHED_IDS: Final = pa.schema([("id", pa.string()), ("source_position", RECORD), ("hash", pa.int64())])
DUPLICATE_IDS: Final = pa.schema([("id", pa.string()), ("source_position", RECORD)])
OUTPUTS: Final = {NARROW: ROWS, EARLIER: ENTRIES, JOINED: IDS}


def new_ids(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `NEW_IDS` of ledger rows, including the ids of halves that updates of a key have joined."""
    is_joined = valid(changes.column("paired_change_id"))
    at = pa.array(np.flatnonzero(is_joined))
    halves = changes.take(at)
    records = pa.concat_arrays([changes.column("source_position"), halves.column("paired_source_position")])
    columns = {
        "id": pa.concat_arrays([changes.column("change_id"), halves.column("paired_change_id")]),
        "source_position": records,
        "hash": hashes(records),
        "is_change": np.arange(len(records)) < len(changes),
        "is_joined": np.concatenate((is_joined, np.ones(len(halves), np.bool_))),
    }
    return batch_of(columns, NEW_IDS)


def published_ids(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `PUBLISHED_IDS` of ledger rows."""
    records = rows.column("source_position")
    return pa.RecordBatch.from_arrays(
        [rows.column("change_id"), records, hashes(records)], schema=PUBLISHED_IDS
    )


def ids_of(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `IDS` of ledger rows: their own, and those of the halves that they have joined."""
    both = [rows.column(name).drop_null() for name in ("change_id", "paired_change_id")]
    return pa.RecordBatch.from_arrays([pa.concat_arrays(both)], schema=IDS)


def of_duplicates(named: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `DUPLICATE_IDS` of rows of dispositions."""
    columns = [named.column(name) for name in ("detail", "source_position")]
    return pa.RecordBatch.from_arrays(columns, schema=DUPLICATE_IDS)


def of_ids(tables: Mapping[str, pa.Table], table: str) -> Mapping[str, pa.Table]:
    """Kernel of the rules for single ids."""
    new, published, duplicates = (tables[name] for name in (NEW, PUBLISHED, DUPLICATES))
    joined = _among(published, column(new.filter(new.column("is_joined")), "id"))
    others, halves = (published.filter(pa.array(rows)) for rows in (~joined, joined))
    is_change = column(new, "is_change")
    changes, joined_ids = new.filter(is_change), column(new.filter(pc.invert(is_change)), "id")
    rows = [
        narrow(
            Judged(table, changes, position="source_position", change_id="id"),
            {"change_id_unique": lambda: _change_id_unique(changes, joined_ids, others)},
        ),
        narrow(
            Judged(table, duplicates, position="source_position", change_id="id"),
            {"duplicates_leave_one": lambda: _duplicates(tables)},
        ),
    ]
    return {
        NARROW: pa.concat_tables(rows),
        EARLIER: _earlier(new, halves),
        JOINED: halves.select(IDS.names),
    }


def _among(rows: pa.Table, ids: pa.StringArray) -> Bools:
    """Returns which rows have one of the ids; NULL matches none."""
    return flags_of(pc.is_in(column(rows, "id"), value_set=ids.drop_null()))


def _change_id_unique(changes: pa.Table, joined: pa.StringArray, published: pa.Table) -> Broken:
    """Checks that no two changes have the same id.

    `joined`: ids of the halves that the run's updates have joined. `published`: rows of the published ledger
    whose ids the run must not have again.
    """
    twice = each_of(
        repeated([column(changes, "id")], len(changes)),
        lambda size: f"{size} changes of this run have this id",
    )
    why = dict(zip(twice.at.tolist(), twice.why, strict=True))
    for row in np.flatnonzero(_among(changes, joined)).tolist():
        why[row] = "an update of this run has joined this change"
    for row in np.flatnonzero(_among(changes, column(published, "id"))).tolist():
        why[row] = "a published change has this id"
    at = sorted(why)
    return Broken(np.array(at, np.int64), [why[row] for row in at])


def _duplicates(tables: Mapping[str, pa.Table]) -> Broken:
    """Finds duplicates that name a change which is not in the ledger."""
    duplicates = tables[DUPLICATES]
    ledger_ids = pa.concat_arrays([column(tables[NEW], "id"), column(tables[STAYED], "id")])
    return rows_that(~_among(duplicates, ledger_ids), "the record repeats a change that is not in the ledger")


def _earlier(new: pa.Table, halves: pa.Table) -> pa.Table:
    """Returns entries that take back the first halves of updates whose halves came in two windows.

    Such a half is a record of the earlier window.
    """
    joined = new.filter(new.column("is_joined"))
    of_joined, among = ([column(rows, name) for name in ("id", "hash")] for rows in (joined, halves))
    earlier = joined.filter(pa.array(order.are_among(of_joined, among)))
    disposition = pc.if_else(column(earlier, "is_change"), change.CHANGE, change.PAIRED)
    return table_of({**by_name(earlier), "disposition": disposition, "times": -1}, ENTRIES)
