"""What Iceberg's snapshots say of themselves: how many rows a table has, without reading one.

Where a file has gone as a whole, positions deleted in it may still count. Compare only snapshots of which one
was built on the other: what stands before both counts in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from changeledger.lake import catalog, refs
from changeledger.lake.parallel import parallel_map


class RowCounts(NamedTuple):
    """Of one snapshot. `written`: rows in its data files; `live`: those that are not deleted.

    None if the snapshot does not say it.
    """

    written: int | None
    live: int | None


class BuiltTable(NamedTuple):
    """A snapshot that a run has built, beside main. `main` is None if main has none."""

    is_new: bool
    main: RowCounts | None
    now: RowCounts

    @property
    def added(self) -> int:
        """How many rows the run has written, about."""
        before = 0 if self.main is None else self.main.written
        return max(0, (self.now.written or 0) - (before or 0))


_UNKNOWN = RowCounts(None, None)


def built(snapshots: Mapping[str, int]) -> dict[str, BuiltTable]:
    """By table."""
    loaded = parallel_map(catalog.load, snapshots)
    return {
        table: _of_table(iceberg_table.metadata, snapshots[table])
        for table, iceberg_table in zip(snapshots, loaded, strict=True)
    }


def _of_table(metadata: TableMetadata, snapshot: int) -> BuiltTable:
    main = metadata.refs.get(refs.MAIN)
    return BuiltTable(
        main is None or main.snapshot_id != snapshot,
        None if main is None else _rows(metadata.snapshot_by_id(main.snapshot_id)),
        _rows(metadata.snapshot_by_id(snapshot)),
    )


def _rows(snapshot: Snapshot | None) -> RowCounts:
    """A position is deleted once; how many rows an equality deletes, no snapshot says."""
    said = {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties
    written, deleted, equalities = (_total(said, what) for what in _TOTALS)
    known = written is not None and deleted is not None and equalities == 0
    return RowCounts(written, written - deleted if known else None)  # type: ignore[operator]


_TOTALS = "total-records", "total-position-deletes", "total-equality-deletes"


def _total(said: Mapping[str, str], what: str) -> int | None:
    return int(said[what]) if what in said else None
