"""Writes rows of change tables into `lake.<feed>.raw_<table>`, one partition per window.

A source table may have several change tables, each with its own columns. `_instance` names the one that a raw
row comes from, and the control store has its writer schema.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql.pandas.types import to_arrow_schema
from sqlalchemy import Select

from changeledger.config.connection import Connection
from changeledger.control import WindowRow
from changeledger.dialects.interface import ChangeTable, TableDialect, TablePositions, TableReader
from changeledger.dialects.tables.raw import AsRaw, RawTable, all_numbered
from changeledger.jdbc.database import JdbcDatabase
from changeledger.kernels.rows import summed, together, values_counted
from changeledger.lake import catalog, iceberg, new_tables, scans, writes
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.model.window import SourceRead, promised
from changeledger.model.wording import counted
from changeledger.spark.session import for_rows_of
from changeledger.stages.common import publishing
from changeledger.stages.common.context import StageContext, log
from changeledger.stages.extraction import completeness, joined, resetting, same_sources


def extract_tables(ctx: StageContext) -> None:
    feed, dialect = ctx.feed, ctx.dialect
    assert isinstance(dialect, TableDialect), "the feed's dialect reads change tables"
    with closing(JdbcDatabase(feed.connection, Connection.named(feed.connection))) as database:
        _extract(ctx, dialect, database)


def _extract(ctx: StageContext, dialect: TableDialect, database: JdbcDatabase) -> None:
    feed, reader = ctx.feed, dialect.reader(ctx.feed, database)
    released = ctx.released
    if dialect.decisive is not None:
        same_sources.require_setting(ctx.control, feed, dialect.decisive, released)
    _require_released(ctx, reader, released)
    same_sources.require_places(ctx, released)
    resetting.require_rows(ctx, reader)
    stored = ctx.open(lambda: _resolve(ctx, reader, released), is_there=partial(_lists_all, ctx))
    joined.note(ctx)
    reading = _WindowTables(ctx, database, reader, dialect, stored.from_position or {}, stored.to_position)
    reads = reading.extract()
    # The source may have been cleaned up or restored from a backup since the first check.
    _require_released(ctx, reader, released)
    ctx.control.sources.save_reads(feed.feed, ctx.window, reads)
    reached = {t: at for t, at in stored.to_position.items() if at >= released.get(t, "")}
    read_by = None if dialect.decisive is None else dialect.decisive.value_in(feed)
    same_sources.save_landmarks(ctx, reader.landmarks(reached), released, read_by)
    completeness.save_table_states(ctx, reader, stored.to_position)
    for of_table in reader.tables:
        ctx.control.contracts.save_writer_schema(feed.feed, of_table.instance, of_table.writer_schema, ctx.id)


def _require_released(ctx: StageContext, reader: TableReader, released: TablePositions) -> None:
    """Raises SourceDataLostError if the source is not the one that was read, or lacks rows that follow."""
    reader.check(released)
    same_sources.require_landmarks(ctx, reader.landmarks(released), released)


def _lists_all(ctx: StageContext, stored: WindowRow) -> bool:
    """Returns whether the feed still lists all tables of the stored window.

    If not, the window is resolved again. A table that is listed later continues from its last release.
    """
    return promised(stored.from_position or {}, stored.to_position).keys() <= ctx.names.keys()


def _resolve(
    ctx: StageContext, reader: TableReader, released: TablePositions
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the positions between which the window reads each table."""
    request = ctx.window.request
    start, end = (released, released) if request.reads_nothing_new else reader.bounds(ctx.window, released)
    if request.partial:
        ctx.require_released(end, released)
    return dict(start), dict(end)


# Assumed bytes of a large value, such as of varchar(max).
_LARGE = 64 << 10


class _Asked(NamedTuple):
    """The window's queries of one change table, and how many rows the source counts for them."""

    of: ChangeTable
    queries: Sequence[Select[Any]]
    expected: int

    @property
    def has_large(self) -> bool:
        return any(column.is_large for column in self.of.writer_schema.columns)

    def read(self, received: int) -> SourceRead:
        differ = f"the source has {counted(self.expected, 'row')}, {received:,} were read"
        problem = None if self.expected == received else differ
        return SourceRead(self.of.instance, self.expected, received, problem=problem)


@dataclass(frozen=True)
class _WindowTables:
    ctx: StageContext
    database: JdbcDatabase
    reader: TableReader
    dialect: TableDialect
    start: TablePositions
    end: TablePositions

    def extract(self) -> list[SourceRead]:
        """Writes the window's rows into raw. Returns what was asked of each change table and what came.

        Starts Spark only if the source has rows.
        """
        asked = [self._asked(change_table) for change_table in self.reader.tables]
        completeness.promise(
            self.ctx, {asked_table.of.instance: asked_table.expected for asked_table in asked}
        )
        # If an earlier try has written rows that the source no longer has, raw must not keep them.
        if not any(asked_table.expected for asked_table in asked) and not self.ctx.has_raw_rows():
            return [asked_table.read(0) for asked_table in asked]
        if any(asked_table.has_large for asked_table in asked):
            for_rows_of(self.ctx.spark, 1, _LARGE)
        by_table = [
            [asked_table for asked_table in asked if asked_table.of.table == table]
            for table in self.ctx.names
        ]
        known, raws = self.ctx.control.contracts.writer_schemas(self.ctx.feed.feed), set(self.ctx.raws)

        def read(of_table: Sequence[_Asked]) -> list[SourceRead]:
            if self._is_quiet(of_table, known, raws):
                return [asked_table.read(0) for asked_table in of_table]
            return self._write(of_table)

        return [table_read for reads in self.ctx.workers.each(read, by_table) for table_read in reads]

    def _is_quiet(self, asked: Sequence[_Asked], known: Mapping[str, Contract], raws: Container[str]) -> bool:
        """Returns whether nothing of a source table need be read, which saves two logins for its columns.

        That is so if neither the source nor the raw table has rows of the window (an earlier try may have
        written some), and the raw table has the source's columns.
        """
        raw = self.ctx.names[asked[0].of.table].raw
        return (
            not any(asked_table.expected for asked_table in asked)
            and all(known.get(each.of.instance) == each.of.writer_schema for each in asked)
            and raw in raws
            and not scans.has_rows(raw, self.ctx.id)
        )

    def _asked(self, change_table: ChangeTable) -> _Asked:
        queries = self.reader.queries(
            change_table, self.start.get(change_table.table), self.end.get(change_table.table)
        )
        return _Asked(change_table, queries, self.database.count(queries))

    def _write(self, asked: Sequence[_Asked]) -> list[SourceRead]:
        """Writes the window's rows of one source table into raw."""
        ctx, table = self.ctx, asked[0].of.table
        name = ctx.names[table].raw
        since = ctx.main_before(name)
        frames = {
            asked_table.of.instance: self.database.read(ctx.spark, asked_table.queries)
            for asked_table in asked
        }
        column_types = dict(iceberg.read(ctx.spark, name).dtypes) if catalog.exists(name) else {}
        raw = RawTable.of(
            {instance: to_arrow_schema(frame.schema) for instance, frame in frames.items()}, column_types
        )
        new = [(column, kind) for column, kind in raw.columns if column not in column_types]
        if not column_types:
            new_tables.create(name, raw.schema, change.BY_WINDOW)
        elif new:
            iceberg.widen(ctx.spark, name, new)
        hidden = publishing.hidden(ctx.feed, table)
        rows = [
            ctx.workers.of_spark(frames[asked_table.of.instance], asked_table.expected).through(
                AsRaw(self.dialect.kernel, ctx.feed, asked_table.of.instance, ctx.id, raw, hidden), raw.schema
            )
            for asked_table in asked
        ]
        numbered = all_numbered(together(rows))
        writes.replace_window(numbered, name, ctx.id, since)
        log.info("%s: read the window's rows of %s into %s", ctx.feed.feed, table, name)
        received = summed(values_counted(numbered, "_instance").collected())
        return [asked_table.read(received.get(asked_table.of.instance, 0)) for asked_table in asked]
