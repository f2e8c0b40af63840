"""Gives the lake of an earlier version the names of this one. Each step may have been done already.

Released tables keep their rows: main, and the newest release's tag, move on to a snapshot of the same rows
that is read by the new names. Older releases stay readable, by the old ones.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from changeledger.control import LEASE_SECONDS, ControlStore, ReleaseRow, lease_heartbeat
from changeledger.dialects.tables.rows import kind_of
from changeledger.model.change import literal, quoted
from changeledger.model.table_names import NAMESPACE, FeedTables
from changeledger.model.window import Window, branch_of
from changeledger.stages.migration import names
from changeledger.stages.migration.names import Names
from changeledger.storage import catalog, lake, refs, renames
from changeledger.storage.publishing import complete_releases, release_tag

log = logging.getLogger("changeledger")
_HOLDER: Final = "changeledger migrate"
# Where a release that is committed and not completed, and the list that it has read, are continued.
_BRANCH: Final = "changeledger_migrate"


def migrate(spark: SparkSession, control: ControlStore) -> None:
    """All feeds, then what comparisons and proofs have left. Raises LeaseHeld while a run of a feed works."""
    feeds = control.feeds()
    for table in (table for feed in feeds for table in catalog.tables(feed)):
        names.taken(table, _names_of(table), renames.columns(table).names)
    for number, feed in enumerate(feeds, start=1):
        control.acquire_lease(feed, _HOLDER, LEASE_SECONDS)
        try:
            with lease_heartbeat(control, feed, _HOLDER):
                _Feed(spark, control, feed).migrate()
        finally:
            control.release_lease(feed, _HOLDER)
        log.info("%s: done, feed %d of %d", feed, number, len(feeds))
    for table in catalog.tables(NAMESPACE):
        rename(table, names.of_results(_own(table)))
        _continue(spark, table, names.of_results(_own(table)), refs.MAIN)
    control.lake_is_migrated()


@dataclass(frozen=True)
class _Feed:
    spark: SparkSession
    control: ControlStore
    feed: str

    def migrate(self) -> None:
        for old, new in names.TABLES.items():
            if catalog.exists(f"lake.{self.feed}.{old}"):
                catalog.rename(f"lake.{self.feed}.{old}", f"lake.{self.feed}.{new}")
        tables = {table: _names_of(table) for table in catalog.tables(self.feed)}
        newest = self.control.latest_release(self.feed)
        moved = {}
        for number, (table, of_table) in enumerate(tables.items(), start=1):
            rename(table, of_table)
            head = self._continued(table, of_table, newest)
            if newest is not None and head is not None and table in newest.tables:
                moved[table] = head
            log.info("%s: table %d of %d: %s", self.feed, number, len(tables), _own(table))
        if newest is not None:
            self._release(newest, moved)
        built = refs.names(tables, refs.BRANCH, branch_of(""))
        for table in tables:
            refs.drop(table, [_BRANCH, *built.get(table, ())])

    def _continued(self, table: str, of_table: Names, newest: ReleaseRow | None) -> int | None:
        """The snapshot that main or, where main is still to be moved there, the newest release has now."""
        released = None if newest is None or newest.completed else newest.tables.get(table)
        main = refs.snapshot_of(table)
        if released is not None and (main is None or main in refs.lineages({table: released})[table]):
            return _continue(self.spark, table, of_table, _BRANCH, released)
        return _continue(self.spark, table, of_table, refs.MAIN)

    def _release(self, newest: ReleaseRow, moved: Mapping[str, int]) -> None:
        """The newest release has these snapshots; where it was not completed, it is now."""
        for table, snapshot in moved.items():
            refs.set_tag(table, release_tag(newest.id), snapshot)
        self.control.move_release(newest.id, {**newest.tables, **moved})
        row = self.control.window_row(self.feed, newest.window_id)
        listed = FeedTables.of(self.feed).replay_requests
        if not newest.completed and row is not None and row.replay_snapshot is not None:
            snapshot = renames.continued(listed, _BRANCH, row.replay_snapshot)
            window = Window(start=row.start, end=row.end, request=row.request)
            self.control.pin_replay(self.feed, window, snapshot)
        complete_releases(lambda: self.spark, self.control, self.feed)


def _own(table: str) -> str:
    return table.rsplit(".", 1)[1]


def _names_of(table: str) -> Names:
    return names.of_feed(_own(table), renames.columns(table).names)


def rename(table: str, of_table: Names) -> None:
    schema = renames.columns(table)
    in_the_way = names.taken(table, of_table, schema.names)
    # A raw table calls such a column so when it is read, too (`stored_names`).
    renames.rename_columns(
        table, {name: f"{name}::{kind_of(schema.field(name).type)}" for name in in_the_way}
    )
    wanted = {old: new for old, new in of_table.columns.items() if old in schema.names}
    renames.rename_columns(table, wanted)
    renames.rename_partitions(table, of_table.columns)
    if "_next_sort_key" in schema.names:
        renames.lie_apart(table, "_valid_to")


def _continue(
    spark: SparkSession, table: str, of_table: Names, branch: str, snapshot: int | None = None
) -> int | None:
    """The branch's new head, its values rewritten; None where main has no snapshot."""
    begin = refs.snapshot_of(table) if snapshot is None else snapshot
    if begin is None:
        return None
    renames.continued(table, branch, begin)
    place = table if branch == refs.MAIN else lake.on_branch(table, branch)
    cells = {name: _rewritten_map(name, values) for name, values in of_table.maps.items()}
    cells |= {name: _rewritten(quoted(name), values) for name, values in of_table.values.items()}
    among = [f"exists(map_values({quoted(n)}), v -> {_is(values)})" for n, values in of_table.maps.items()]
    among += [_is(values, quoted(name)) for name, values in of_table.values.items()]
    if cells:
        where = " OR ".join(f"coalesce({one}, false)" for one in among)
        if spark.sql(f"SELECT 1 FROM {place} WHERE {where} LIMIT 1").collect():  # noqa: S608 - our own names
            sets = ", ".join(f"{quoted(name)} = {value}" for name, value in cells.items())
            spark.sql(f"UPDATE {place} SET {sets} WHERE {where}")  # noqa: S608 - our own names
    return refs.snapshot_of(table, branch)


def _rewritten_map(name: str, values: Mapping[str, str]) -> str:
    return f"transform_values({quoted(name)}, (k, v) -> {_rewritten('v', values)})"


def _rewritten(value: str, values: Mapping[str, str]) -> str:
    cases = " ".join(f"WHEN {literal(old)} THEN {literal(new)}" for old, new in values.items())
    return f"CASE {value} {cases} ELSE {value} END"


def _is(values: Mapping[str, str], value: str = "v") -> str:
    return f"{value} IN ({', '.join(map(literal, values))})"
