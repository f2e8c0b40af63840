"""Rows of SQL Server's change tables into `lake.<feed>.raw_<table>`, one partition per window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from math import ceil
from zoneinfo import ZoneInfo

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger.change import quoted
from changeledger.config import CdcTablesSource, Connection, TableConfig
from changeledger.contract import Contract
from changeledger.dialects import sqlserver_cdc
from changeledger.dialects import sqlserver_cdc_sql as sql
from changeledger.errors import ConfigError, GapError
from changeledger.stages.run import Run, log
from changeledger.storage import lake
from changeledger.storage.control import Position
from changeledger.storage.jdbc import Database


@dataclass(frozen=True)
class Captured:
    """One table of the feed, as its change table tells it."""

    config: TableConfig
    instance: sql.CaptureInstance
    contract: Contract
    # A table that no run has read yet: all that its change table has belongs to this window.
    is_new: bool


def extract_tables(this: Run) -> None:
    feed, source = this.feed, this.feed.source
    assert isinstance(source, CdcTablesSource), "config binds a dialect to its source"
    database = Database(feed.connection, Connection.named(feed.connection))
    catalog = sql.CdcCatalog(source.cdc_schema)
    tables = _captured(this, database, catalog)
    stored = this.control.window(feed.feed, this.window)
    if stored is None:
        start, end = _resolve(this, database, catalog, tables)
        stored = this.control.open_window(
            feed.feed, this.window, None if start is None else _position(start), _position(end)
        )
    first = bytes.fromhex(stored.from_position["lsn"]) if stored.from_position else None
    last = bytes.fromhex(stored.to_position["lsn"])
    reader = _Reader(this, database, catalog, source.partition_rows, first, last)
    this.each(reader.extract, tables)
    for table in tables:
        this.control.save_shape(feed.feed, table.instance.name, table.contract, this.id)


def _position(lsn: bytes) -> Position:
    return {"lsn": lsn.hex().upper()}


def _captured(this: Run, database: Database, catalog: sql.CdcCatalog) -> list[Captured]:
    """Every table of the feed with its capture instance. Raises ConfigError where one has none or two."""
    instances = sql.capture_instances(
        row.asDict() for row in database.rows(this.spark, catalog.capture_instances())
    )
    columns = [row.asDict() for row in database.rows(this.spark, catalog.captured_columns())]
    found = []
    for config in this.feed.tables:
        of_table = [i for i in instances if i.table.lower() == config.table.lower()]
        if len(of_table) != 1:
            raise ConfigError(
                f"{config.table} has {len(of_table)} capture instances: {[i.name for i in of_table]}",
                "enable change data capture for it (sys.sp_cdc_enable_table), with one instance, and grant "
                "the feed's login SELECT on the cdc schema",
            )
        told = sql.contract_of(config, of_table[0], columns).checked()
        known = this.control.contract(this.feed.feed, config.table)
        found.append(Captured(config, of_table[0], told, known is None))
    return found


def _resolve(
    this: Run, database: Database, catalog: sql.CdcCatalog, tables: Sequence[Captured]
) -> tuple[bytes | None, bytes]:
    """The window's LSNs, `(from, to]`; from is None in the feed's first window."""
    feed = this.feed
    released = this.control.position(feed.feed)
    known = bytes.fromhex(released["lsn"]) if released else None
    top = _lsn(this, database, catalog)
    if top is not None and known is not None and top < known:
        raise GapError(
            f"{feed.feed}: the source ends at {top.hex()}, but {known.hex()} was read: it was restored or "
            "its capture was enabled anew",
            "start the feed anew from a snapshot (docs/operate.md, 'A gap')",
        )
    if known is not None:
        _check_retention(feed.feed, known, tables)
    last = _lsn(this, database, catalog, this.window.end) or known or bytes(10)
    before = _lsn(this, database, catalog, this.window.start) or bytes(10)
    first = None if known is None else min(known, before)
    return first, last if first is None else max(first, last)


def _check_retention(feed: str, known: bytes, tables: Sequence[Captured]) -> None:
    lost = [
        f"{t.instance.name}_CT begins at {t.instance.start_lsn.hex()}"
        for t in tables
        if not t.is_new and t.instance.start_lsn > known
    ]
    if lost:
        raise GapError(
            f"{feed}: changes behind {known.hex()}, the last one published, were cleaned up: "
            f"{'; '.join(lost)}",
            "raise the retention of the cdc clean-up job, and start the feed anew from a snapshot "
            "(docs/operate.md, 'A gap')",
        )


def _lsn(
    this: Run, database: Database, catalog: sql.CdcCatalog, before: datetime | None = None
) -> bytes | None:
    zone = ZoneInfo(this.feed.time_zone)
    local = None if before is None else before.astimezone(zone).replace(tzinfo=None)
    value = database.rows(this.spark, catalog.highest_lsn(local))[0]["lsn"]
    return None if value is None else bytes(value)


@dataclass(frozen=True)
class _Reader:
    this: Run
    database: Database
    catalog: sql.CdcCatalog
    partition_rows: int
    first: bytes | None
    last: bytes

    def extract(self, table: Captured) -> None:
        this = self.this
        after = None if table.is_new else self.first
        header = self.database.read(this.spark, [self.catalog.header(table.instance)]).columns
        names = [
            n
            for n in header
            if n in {sql.START_LSN, sql.SEQVAL, sql.OPERATION, sql.UPDATE_MASK, sql.COMMAND_ID}
        ]
        rows = self.database.rows(this.spark, self.catalog.row_count(table.instance, after, self.last))
        count = int(rows[0]["rows"])
        bounds = [after, *self._cuts(ceil(count / self.partition_rows), after), self.last]
        queries = [
            self.catalog.changes(table.instance, table.contract, names, low, high)
            for low, high in pairwise(bounds)
            if high is not None
        ]
        raw = self.database.read(this.spark, queries)
        self._write(raw, table, count)

    def _cuts(self, parts: int, after: bytes | None) -> list[bytes]:
        """LSNs that cut the window into `parts` ranges of about as many transactions."""
        if parts <= 1:
            return []
        found = self.database.rows(self.this.spark, self.catalog.transactions(after, self.last))
        lsns = sorted(bytes(row["lsn"]) for row in found)
        cuts = {lsns[len(lsns) * part // parts] for part in range(1, parts)} if lsns else set()
        return sorted(cut for cut in cuts if cut < self.last)

    def _write(self, raw: DataFrame, table: Captured, count: int) -> None:
        this, name = self.this, self.this.raw_table(table.config.table)
        rows = raw.select(
            F.lit(this.id).alias("run_id"),
            sqlserver_cdc.record(raw, table.instance.name).alias("record"),
            *(F.col(quoted(c)) for c in raw.columns),
        )
        if lake.exists(this.spark, name):
            lake.widen(this.spark, name, rows.dtypes)
        else:
            lake.create(this.spark, name, rows.dtypes, ("run_id",))
        lake.replace_partition(rows, name, "run_id", this.id)
        log.info("%s: read %d rows of %s_CT into %s", this.feed.feed, count, table.instance.name, name)
