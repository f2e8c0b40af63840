"""What Iceberg's snapshots say of themselves: how many rows a table has, without reading one.

Where a file has gone as a whole, positions deleted in it may still count. Compare only snapshots of which one
was built on the other: what stands before both counts in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pyiceberg.table.snapshots import Snapshot

from changeledger.lake import catalog, refs
from changeledger.lake.parallel import parallel_map


class BuiltTable(NamedTuple):
    """A snapshot that a run has built, beside main: how many rows it has; None if a snapshot does not say.

    `is_published`: has main a snapshot?
    """

    is_new: bool
    is_published: bool
    before: int | None
    now: int | None


def built(snapshots: Mapping[str, int]) -> dict[str, BuiltTable]:
    """By table."""
    loaded = dict(zip(snapshots, parallel_map(catalog.load, snapshots), strict=True))
    built_tables = {}
    for table, snapshot in snapshots.items():
        metadata, main = loaded[table].metadata, refs.head(loaded[table])
        before = None if main is None else _rows(metadata.snapshot_by_id(main))
        now = _rows(metadata.snapshot_by_id(snapshot))
        built_tables[table] = BuiltTable(main != snapshot, main is not None, before, now)
    return built_tables


def has_deleted_rows(table: str) -> bool:
    """Has main files that say of other files' rows that they are deleted? True where no snapshot says it."""
    snapshot = catalog.load(table).current_snapshot()
    return snapshot is not None and _said(snapshot).get("total-delete-files") != "0"


def _said(snapshot: Snapshot | None) -> Mapping[str, str]:
    return {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties


def _rows(snapshot: Snapshot | None) -> int | None:
    """A position is deleted once; how many rows an equality deletes, no snapshot says."""
    said = _said(snapshot)
    written, deleted = said.get("total-records"), said.get("total-position-deletes")
    if written is None or deleted is None or said.get("total-equality-deletes") != "0":
        return None
    return int(written) - int(deleted)
