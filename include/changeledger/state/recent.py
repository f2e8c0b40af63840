"""Rows of a table that have changed recently, for people who have no key at hand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple

import pyarrow as pa
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask, Table

from changeledger.state.cells import key_texts
from changeledger.state.life import Place

MOST: Final = 8
# How many changes and files are read at most: some tenths of a second for a ledger of any size.
_READ: Final = 200_000
_FILES: Final = 8
_SORT_KEY: Final = "sort_key"
_COLUMNS: Final = ("change_id", "operation", "key", "commit_lsn", _SORT_KEY, "committed_at")


class RecentRow(NamedTuple):
    """A row with its last change among those that were read. `commit_lsn`: as hex."""

    key: dict[str, str]
    operation: str
    committed_at: datetime | None
    change_id: str
    commit_lsn: str | None


def recent_rows(place: Place, most: int = MOST) -> list[RecentRow]:
    """Returns at most `most` rows, the last changed first.

    Reads the files of the ledger that reach furthest in the source's order. Raises ConfigError if nothing of
    the table is published.
    """
    rows: dict[tuple[str, ...], RecentRow] = {}
    for changes in _last_changes(place.ledger()):
        for batch in changes.sort_by([(_SORT_KEY, "descending")]).to_batches(max_chunksize=most):
            for change in batch.to_pylist():
                # A truncate has no key.
                if change["key"] is not None:
                    key, lsn = key_texts(change["key"]), change["commit_lsn"]
                    operation, at, change_id = (change[n] for n in ("operation", "committed_at", "change_id"))
                    row = RecentRow(key, operation, at, change_id, None if lsn is None else lsn.hex().upper())
                    rows.setdefault(tuple(key.values()), row)
            if len(rows) >= most:
                return list(rows.values())[:most]
    return list(rows.values())


def _last_changes(ledger: Table) -> Iterator[pa.Table]:
    """Yields the changes of each file, starting with the file that reaches furthest."""
    scan = ledger.scan(selected_fields=_COLUMNS)
    arrow = ArrowScan(scan.table_metadata, scan.io, scan.projection(), scan.row_filter)
    sort_key = ledger.schema().find_field(_SORT_KEY).field_id

    def reach(task: FileScanTask) -> bytes:
        return (task.file.upper_bounds or {}).get(sort_key) or b""

    count = 0
    for task in sorted(scan.plan_files(), key=reach, reverse=True)[:_FILES]:
        batches = []
        for batch in arrow.to_record_batches([task]):
            batches.append(batch)
            count += len(batch)
            if count >= _READ:
                break
        if batches:
            yield pa.Table.from_batches(batches)
        if count >= _READ:
            return
