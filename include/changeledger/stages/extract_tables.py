"""Rows of change tables into `lake.<feed>.raw_<table>`, one partition per window.

Several change tables may tell one source table, each in a shape of its own: `_instance` names the one
that a raw row is from, and the control store has its shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from sqlalchemy import Select

from changeledger.change import quoted
from changeledger.config import Connection
from changeledger.dialects.base import ChangeTable, TableDialect, TablePositions, TableReader
from changeledger.dialects.table_rows import are_crowded, numbered, stored_names
from changeledger.stages import completeness, looking
from changeledger.stages.run import Run, log
from changeledger.storage import lake
from changeledger.storage.control import SourceMark
from changeledger.storage.jdbc import Database
from changeledger.window import SourceRead


def extract_tables(this: Run) -> None:
    feed, dialect = this.feed, this.dialect
    assert isinstance(dialect, TableDialect), "the feed's dialect reads change tables"
    database = Database(feed.connection, Connection.named(feed.connection))
    reader = dialect.reader(feed, _Asked(this, database))
    released = this.control.position(feed.feed) or {}
    reader.check(released)
    completeness.require_landmarks(this, reader.landmarks(released), released)
    stored = this.open(lambda: _resolve(this, reader, released))
    reading = _Reading(this, database, reader, dialect, stored.from_position or {}, stored.to_position)
    reads = [read for found in lake.each(reading.extract, list(this.names)) for read in found]
    # A clean-up may have come between the first look and the reading.
    reader.check(released)
    this.control.save_reads(feed.feed, this.window, reads)
    reached = {t: at for t, at in stored.to_position.items() if at >= released.get(t, "")}
    this.control.save_source_marks(
        feed.feed, {t: SourceMark(text, 0, None) for t, text in reader.landmarks(reached).items()}
    )
    looking.look_at_tables(this, reader, stored.to_position)
    for told in reader.tables:
        this.control.save_shape(feed.feed, told.instance, told.shape, this.id)


def _resolve(
    this: Run, reader: TableReader, released: TablePositions
) -> tuple[dict[str, str], dict[str, str]]:
    """What the window reads of each table."""
    request = this.window.request
    start, end = (released, released) if request.reads_nothing_new else reader.bounds(this.window, released)
    if request.partial:
        this.require_released(end, released)
    return dict(start), dict(end)


@dataclass(frozen=True)
class _Asked:
    """The database as a `base.Database`."""

    this: Run
    database: Database

    def rows(self, query: Select[Any]) -> list[Mapping[str, Any]]:
        return [row.asDict() for row in self.database.rows(self.this.spark, query)]

    def columns(self, query: Select[Any]) -> Sequence[str]:
        return self.database.columns(self.this.spark, query)


@dataclass(frozen=True)
class _Reading:
    this: Run
    database: Database
    reader: TableReader
    dialect: TableDialect
    start: TablePositions
    end: TablePositions

    def extract(self, table: str) -> list[SourceRead]:
        """The window's rows of the table into raw; of each of its change tables what was asked and came."""
        this, name = self.this, self.this.raw_table(table)
        there = dict(lake.read(this.spark, name).dtypes) if lake.exists(this.spark, name) else {}
        kinds = {column.lower(): kind for column, kind in there.items()}
        frames = []
        for told in self.reader.tables:
            if told.table == table:
                frames.append(self._rows(told, kinds))
                kinds.update((column.lower(), kind) for column, kind in frames[-1].dtypes)
        rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
        fresh = [(column, kind) for column, kind in rows.dtypes if column not in there]
        if not there:
            lake.create(this.spark, name, fresh, ("run_id",))
        elif fresh:
            lake.widen(this.spark, name, fresh)
        lake.replace_partition(rows, name, "run_id", this.id)
        written = lake.read(this.spark, name).where(F.col("run_id") == this.id)
        if are_crowded(written):
            lake.replace_partition(numbered(written), name, "run_id", this.id)
        log.info("%s: read the window's rows of %s into %s", this.feed.feed, table, name)
        return self._reads(table, name)

    def _reads(self, table: str, raw: str) -> list[SourceRead]:
        """Counted in the source once more, now that the raw rows are written."""
        mine = lake.read(self.this.spark, raw).where(F.col("run_id") == self.this.id)
        came: dict[str, int] = dict(mine.groupBy("_instance").count().collect())
        found = []
        for told in self.reader.tables:
            if told.table == table:
                bounds = self.start.get(table), self.end.get(table)
                asked = self.database.count(self.this.spark, self.reader.queries(told, *bounds))
                received = came.get(told.instance, 0)
                differ = f"the source has {asked} rows, {received} were read"
                found.append(
                    SourceRead(told.instance, asked, received, problem=None if asked == received else differ)
                )
        return found

    def _rows(self, told: ChangeTable, kinds: Mapping[str, str]) -> DataFrame:
        """The window's rows of one change table, as they came, for a raw table of columns of these types."""
        bounds = self.start.get(told.table), self.end.get(told.table)
        raw = self.database.read(self.this.spark, self.reader.queries(told, *bounds))
        names = stored_names(raw.dtypes, kinds)
        return raw.select(
            F.lit(self.this.id).alias("run_id"),
            self.dialect.record(raw, told.instance, self.this.feed).alias("record"),
            F.lit(told.instance).alias("_instance"),
            *(F.col(quoted(read)).alias(name) for read, name in zip(raw.columns, names, strict=True)),
        )
