"""Chooses the rows of SQL Server's change tables that a window reads.

A position is a commit LSN as 20 upper-case hex digits. A table that was captured again after a change of
its columns has two capture instances: the older one is read below the newer one's start_lsn, the newer one
from there on. Both capture the transactions from there on, each with command ids of its own, and only the
newer one has the columns that it adds (measured on SQL Server 2017 and 2022, emanuel-luis/mssql-cdc-pyspark,
ADR 0023; Debezium reads them the same way).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from math import ceil
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import Select

from changeledger.config.feed import Feed
from changeledger.config.sources import SqlServerCdcSource
from changeledger.dialects.hidden_values import require_values
from changeledger.dialects.interface import Caution, ChangeTable, SourceDatabase, TablePositions
from changeledger.dialects.sqlserver_cdc import catalog as sql
from changeledger.dialects.sqlserver_cdc.blind_spots import cautions
from changeledger.dialects.sqlserver_cdc.clock import FallBack, fall_back, moment, repeated_hours
from changeledger.dialects.sqlserver_cdc.header import COMMAND_ID, OPERATION, SEQVAL, START_LSN, UPDATE_MASK
from changeledger.dialects.sqlserver_cdc.instances import CaptureInstance, capture_instances, of_table
from changeledger.dialects.sqlserver_cdc.server_clock import contradiction
from changeledger.dialects.sqlserver_cdc.time_mapping import TimeMapping
from changeledger.kernels.lsn import WIDTH
from changeledger.model.errors import SourceDataLostError, SourceUnavailable, load_again
from changeledger.model.source_state import SourceState, capture_state
from changeledger.model.window import Window

log = logging.getLogger("changeledger")

_HEADER = (START_LSN, SEQVAL, OPERATION, UPDATE_MASK, COMMAND_ID)


class _Part(NamedTuple):
    """One capture instance and the LSNs `(begin, end]` for which it captures its table."""

    instance: CaptureInstance
    begin: bytes | None
    end: bytes | None


class CaptureTables:
    """An `interface.TableReader`. Raises ConfigError if a table of the feed is not captured."""

    def __init__(self, feed: Feed, database: SourceDatabase) -> None:
        source = feed.source
        assert isinstance(source, SqlServerCdcSource), "config binds a dialect to its source"
        self._feed = feed
        self._database = database
        self._partition_rows = source.partition_rows
        self._cdc_schema = source.cdc_schema
        self._catalog = sql.CdcCatalog(source.cdc_schema)
        self._mapping = TimeMapping(source.cdc_schema)
        self._parts: dict[str, _Part] = {}
        # By table: the instance that reaches back furthest.
        self._oldest: dict[str, CaptureInstance] = {}
        # The highest LSN up to which rows were requested.
        self._read = bytes(WIDTH)
        self.tables: Sequence[ChangeTable] = self._discovered()

    def check(self, released: TablePositions) -> None:
        """Reads the instances again: a clean-up moves their start_lsn before it removes rows."""
        instances = self._instances()
        lost = [
            f"{oldest.name}_CT begins at {_shown(oldest)}, but {released[table]} was published"
            for table, (oldest, *_) in instances.items()
            if table in released and oldest.begins_after(bytes.fromhex(released[table]))
        ]
        if lost:
            raise SourceDataLostError(
                f"{self._feed.feed}: changes after the last published ones were cleaned up, or the "
                f"capture was enabled again, as for a table that was created again: {'; '.join(lost)}",
                f"raise the retention of the cdc clean-up job; {load_again(self._feed.feed)}",
            )
        self._require_same(instances)
        (row,) = self._database.rows(self._mapping.highest_lsn())
        top = row["lsn"] and bytes(row["lsn"])
        known = max(released.values(), default="")
        if top is not None and _text(top) < known:
            raise SourceDataLostError(
                f"{self._feed.feed}: the source ends at {_text(top)}, but {known} was read: it was "
                "restored, its capture was enabled again, or a replica answered that lags behind the "
                "one read before",
                "if it is such a replica, run the window again when it has caught up; else "
                f"{load_again(self._feed.feed)}",
            )

    def landmarks(self, positions: TablePositions) -> Mapping[str, str]:
        """Returns each LSN with its commit time and the table's id.

        A restored database gives its LSNs to other transactions, and another table may take over a name.
        """
        lsns = {bytes.fromhex(at) for at in positions.values()}
        if not lsns:
            return {}
        rows = self._database.rows(self._mapping.commit_times(sorted(lsns)))
        times = {_text(bytes(row["lsn"])): str(row["time"]) for row in rows}
        lowest = min(times, default=None)
        gone = {table: at for table, at in positions.items() if lowest and lowest <= at not in times}
        if gone:
            raise SourceDataLostError(
                f"{self._feed.feed}: the source no longer has transaction "
                f"{', '.join(sorted(set(gone.values())))}, which was read from it, although it has "
                "older ones: it was restored, or failed over with data loss",
                load_again(self._feed.feed),
            )
        ids = {table: oldest.source_id for table, oldest in self._oldest.items()}
        return {
            table: f"{at} {times[at]}" + (f" (object {ids[table]})" if ids.get(table) else "")
            for table, at in positions.items()
            if at in times
        }

    def source_states(self, read: TablePositions, at: datetime) -> Sequence[SourceState]:
        """Returns one state: all capture instances share the log and the capture job's marks of the time."""
        rows = self._database.rows(self._mapping.newest_transaction())
        end = newest = None
        for row in rows:
            lsn, local = bytes(row["lsn"]), _local(row["time"])
            known = _of_hour(self._falls_back(), local)
            end, newest = _text(lsn), moment(local, self._feed.time_zone, known.of(lsn) if known else None)
        state = capture_state(self._mapping.name, max(read.values(), default=""), end, newest, at)
        why = contradiction(self._database, self._feed.time_zone) if self._is_own_catalog else None
        # With a wrong zone, the age of the newest mark is unknown.
        return [state if why is None else replace(state, since=None, why=why)]

    def kept_since(self) -> datetime | None:
        """Returns the oldest commit time in the log. All capture instances and their clean-up share it."""
        (span,) = self._database.rows(self._mapping.span())
        return None if span["first"] is None else moment(_local(span["first"]), self._feed.time_zone, None)

    def cautions(self) -> Sequence[Caution]:
        if not self._is_own_catalog:
            return ()
        instances = [part.instance for part in self._parts.values()]
        return cautions(self._database, self._cdc_schema, instances, self._columns)

    def bounds(self, window: Window, released: TablePositions) -> tuple[TablePositions, TablePositions]:
        known = self._falls_back()
        before, last = (self._highest_lsn(at, known) for at in (window.start, window.end))
        if last is not None and last == before:
            log.warning(
                "%s: nothing was captured between %s and %s, not even the marks of an idle log: "
                "the capture job may be stopped (sys.sp_cdc_help_jobs)",
                self._feed.feed, window.start, window.end,
            )  # fmt: skip
        # A capture that begins after the window has nothing yet. It gets no position, which `check` would
        # take for one whose changes are lost.
        captured = [table for table, oldest in self._oldest.items() if last and not oldest.begins_after(last)]
        empty = [table for table, oldest in self._oldest.items() if oldest.start_lsn is None]
        if empty:
            log.warning(
                "%s: nothing is captured yet of %s: the capture job has not started on it "
                "(sys.sp_cdc_help_jobs)",
                self._feed.feed, ", ".join(empty),
            )  # fmt: skip
        if window.request.mode == "window" and not captured:
            raise SourceDataLostError(
                f"{self._feed.feed}: the window ends before the oldest change that the change tables "
                "still keep",
                "choose a later end; what earlier runs have read is in the feed's raw tables",
            )
        first = {table: min(at, _text(before or bytes(WIDTH))) for table, at in released.items()}
        if last is None:
            return first, first
        return first, first | {table: max(first.get(table, ""), _text(last)) for table in captured}

    def queries(self, table: ChangeTable, after: str | None, to: str | None) -> Sequence[Select[Any]]:
        instance, begin, end = self._parts[table.instance]
        starts = (begin, None if after is None else bytes.fromhex(after))
        low = max((at for at in starts if at is not None), default=None)
        high = bytes.fromhex(to) if to else bytes(WIDTH)
        self._read = max(self._read, high)
        high = high if end is None else min(high, end)
        header_columns = set(self._database.columns(self._catalog.change_table(instance)))
        names = [name for name in _HEADER if name in header_columns]
        cuts, known = self._cuts(instance, low, high), self._falls_back()
        return [
            self._catalog.changes(instance, table.writer_schema, names, lower, upper, known)
            for lower, upper in pairwise([low, *cuts, high])
            if upper is not None
        ]

    def _instances(self) -> dict[str, list[CaptureInstance]]:
        """The capture instances of each table as the database has them now, the oldest first."""
        instances = capture_instances(self._database.rows(self._catalog.capture_instances()))
        return {config.table: of_table(config.table, instances) for config in self._feed.tables}

    def _require_same(self, instances: Mapping[str, Sequence[CaptureInstance]]) -> None:
        """Raises SourceUnavailable if another instance now has changes that were read from an older one.

        It may have columns that the older one does not capture.
        """
        known = {(part.instance.name, part.instance.object_id) for part in self._parts.values()}
        others = [
            instance.name
            for of_one in instances.values()
            for instance in of_one
            if (instance.name, instance.object_id) not in known and not instance.begins_after(self._read)
        ]
        if others:
            raise SourceUnavailable(
                f"{self._feed.feed}: {', '.join(others)} began to capture while its table was read",
                "run the window again: it then reads both instances",
            )

    def _discovered(self) -> list[ChangeTable]:
        # The columns that `sys.columns` has.
        self._columns = self._database.columns(self._catalog.columns)
        # A copy of the catalog does not have all of its views.
        self._is_own_catalog = "collation_name" in self._columns
        captured = self._catalog.captured_columns(self._columns)
        instances, columns = self._instances(), self._database.rows(captured)
        change_tables = []
        for config in self._feed.tables:
            of_one = instances[config.table]
            self._oldest[config.table] = of_one[0]
            bounds = [*(_before(i.start_lsn) for i in of_one), None]
            for instance, (begin, end) in zip(of_one, pairwise(bounds), strict=True):
                self._parts[instance.name] = _Part(instance, begin, end)
                masked = sql.masked_columns(config, instance, columns)
                require_values(self._database, self._cdc_schema, f"{instance.name}_CT", masked)
                writer_schema = sql.contract_of(config, instance, columns).checked()
                change_tables.append(ChangeTable(config.table, instance.name, writer_schema))
        return change_tables

    def _highest_lsn(self, before: datetime, known: Sequence[FallBack]) -> bytes | None:
        local = before.astimezone(ZoneInfo(self._feed.time_zone)).replace(tzinfo=None)
        (row,) = self._database.rows(self._mapping.highest_lsn(local, _of_hour(known, local)))
        return None if row["lsn"] is None else bytes(row["lsn"])

    def _falls_back(self) -> list[FallBack]:
        """Returns how the source's clock was put back in the time that its change tables still cover.

        Queried each time it is needed, because the second pass shows only with its first commit.
        """
        zone = self._feed.time_zone
        if zone == "UTC":
            return []
        (span,) = self._database.rows(self._mapping.span())
        if span["first"] is None:
            return []
        falls_back = []
        for hour in repeated_hours(zone, _local(span["first"]), _local(span["last"])):
            rows = self._database.rows(self._mapping.around(hour))
            commits = [(bytes(row["lsn"]), _local(row["minute"])) for row in rows]
            falls_back.append(fall_back(hour, commits, marked=True))
        return falls_back

    def _cuts(self, instance: CaptureInstance, low: bytes | None, high: bytes) -> list[bytes]:
        """Returns LSNs that cut a large read into ranges of about as many transactions each."""
        (count,) = self._database.rows(self._catalog.row_count(instance, low, high))
        parts = ceil(int(count["rows"]) / self._partition_rows)
        if parts <= 1:
            return []
        transactions = self._database.rows(self._mapping.transactions(low, high))
        lsns = sorted(bytes(row["lsn"]) for row in transactions)
        cuts = {lsns[len(lsns) * part // parts] for part in range(1, parts)} if lsns else set()
        return sorted(cut for cut in cuts if cut < high)


def _local(time: object) -> datetime:
    """Parses a time of the database; SQLite returns text."""
    return datetime.fromisoformat(str(time))


def _of_hour(known: Sequence[FallBack], local: datetime) -> FallBack | None:
    """Returns the entry of the hour that has the time twice, if any."""
    return next((transition for transition in known if transition.hour.has(local)), None)


def _before(lsn: bytes | None) -> bytes | None:
    """Returns the LSN before it, as sys.fn_cdc_decrement_lsn does."""
    return None if lsn is None else max(int.from_bytes(lsn) - 1, 0).to_bytes(WIDTH)


def _shown(instance: CaptureInstance) -> str:
    return "no LSN yet" if instance.start_lsn is None else instance.start_lsn.hex()


def _text(at: bytes) -> str:
    return at.hex().upper()
