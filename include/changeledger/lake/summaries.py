"""Row counts from the summaries of Iceberg's snapshots, without reading rows.

If a whole file was removed, position deletes in it may still count. Compare counts only between snapshots of
which one was built on the other: such an error is then in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pyiceberg.table.snapshots import Snapshot

from changeledger.lake import catalog, refs
from changeledger.lake.parallel import parallel_map


class BuiltTable(NamedTuple):
    """A snapshot that a run has built, compared with main.

    `is_new`: whether it differs from main. `is_published`: whether main has a snapshot.
    `before`, `now`: rows of main and of the snapshot; None if a summary does not say.
    """

    is_new: bool
    is_published: bool
    before: int | None
    now: int | None


def built(snapshots: Mapping[str, int]) -> dict[str, BuiltTable]:
    """Returns the summaries of these snapshots, by table."""
    loaded = dict(zip(snapshots, parallel_map(catalog.load, snapshots), strict=True))
    built_tables = {}
    for table, snapshot in snapshots.items():
        metadata, main = loaded[table].metadata, refs.head(loaded[table])
        before = None if main is None else _rows(metadata.snapshot_by_id(main))
        now = _rows(metadata.snapshot_by_id(snapshot))
        built_tables[table] = BuiltTable(main != snapshot, main is not None, before, now)
    return built_tables


def has_deleted_rows(table: str) -> bool:
    """Returns whether main has delete files. True if the snapshot's summary does not say."""
    snapshot = catalog.load(table).current_snapshot()
    return snapshot is not None and _said(snapshot).get("total-delete-files") != "0"


def _said(snapshot: Snapshot | None) -> Mapping[str, str]:
    return {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties


def _rows(snapshot: Snapshot | None) -> int | None:
    """Returns the rows of a snapshot, or None if its summary does not tell.

    Each position delete removes one row; how many rows an equality delete removes is unknown.
    """
    said = _said(snapshot)
    written, deleted = said.get("total-records"), said.get("total-position-deletes")
    if written is None or deleted is None or said.get("total-equality-deletes") != "0":
        return None
    return int(written) - int(deleted)
