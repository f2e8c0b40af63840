"""Takes a snapshot of a source: reads its tables while they keep changing, and notes when it did."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from changeledger.config.connection import Connection
from changeledger.config.database import Verify
from changeledger.control import SnapshotRow, WindowRow
from changeledger.dialects.hidden_values import masked_columns, require_values
from changeledger.dialects.sqlserver_cdc.time_mapping import TimeMapping
from changeledger.dialects.tables import values
from changeledger.dialects.tables.sql import named_table
from changeledger.jdbc.database import JdbcDatabase
from changeledger.lake import catalog, iceberg, upkeep
from changeledger.lake.parallel import parallel_map
from changeledger.model.contract import Contract
from changeledger.model.errors import ConfigError
from changeledger.model.table_names import snapshot_table
from changeledger.spark.rows import Workers
from changeledger.stages.common.context import log
from changeledger.verify import snapshot_sql as sql


class _Moment(NamedTuple):
    """A time by the source's own clock, and the highest LSN that it had captured then."""

    at: datetime
    lsn: bytes | None


def take(
    spark: SparkSession, workers: Workers, database: str, source: Verify, tables: Mapping[str, Contract]
) -> SnapshotRow:
    """Reads the tables into the lake, in those columns of their contracts that the source has.

    `tables`: contracts by lower-case table name, as in the result. Raises SourceUnavailable, and ConfigError
    if a table lacks a key column in the source.
    """
    assert source.connection is not None, "Database.source has found it"
    jdbc = JdbcDatabase(source.connection, Connection.named(source.connection))
    with closing(jdbc):
        reading = _SnapshotReader(spark, workers, jdbc, source, database)
        since = reading.moment()
        stored_tables = dict(parallel_map(reading.table, tables.values()))
        until = reading.moment()
    return SnapshotRow(
        id=f"{database}_{since.at:%Y%m%dT%H%M%S%fZ}",
        database=database,
        since=since.at,
        until=until.at,
        since_lsn=None if since.lsn is None else since.lsn.hex().upper(),
        until_lsn=None if until.lsn is None else until.lsn.hex().upper(),
        tables=stored_tables,
        at=datetime.now(UTC),
    )


def is_sent(furthest: WindowRow | None, snapshot: SnapshotRow, grace_period: timedelta) -> bool:
    """Has the feed all that the source had when it was read?

    Its window ends late enough, by Airflow's clock against the source's, and was read late enough, by the
    jobs' own clock: Airflow's may be ahead, so that windows end at times to which the source has not come.
    """
    return (
        furthest is not None
        and furthest.end >= snapshot.until + grace_period
        and furthest.opened_at >= snapshot.at + grace_period
    )


class _SnapshotReader(NamedTuple):
    spark: SparkSession
    workers: Workers
    database: JdbcDatabase
    source: Verify
    name: str

    def moment(self) -> _Moment:
        if self.source.cdc_schema is None:
            (row,) = self.database.rows(sql.clock())
            return _Moment(_utc(row["at"]), None)
        highest = TimeMapping(self.source.cdc_schema).highest_lsn().add_columns(sql.UtcNow().label("at"))
        (row,) = self.database.rows(highest)
        return _Moment(_utc(row["at"]), None if row["lsn"] is None else bytes(row["lsn"]))

    def table(self, contract: Contract) -> tuple[str, dict[str, Any]]:
        log.info("%s: reading it from the source", contract.table)
        schema, _, name = contract.table.partition(".")
        place = (self.source.schemas.get(schema.lower(), schema), name)
        source_columns = self.database.columns(named_table(*place))
        contract = _present(contract, source_columns)
        if self.database.is_sql_server:
            masked = masked_columns(self.database, *place, contract.names)
            require_values(self.database, *place, masked)
        source = named_table(*place, *contract.names)
        (counted,) = self.database.rows(sql.row_count(source))
        cuts = self._cuts(source, contract, counted["rows"])
        raw = self.database.read(self.spark, sql.parts(source, contract, cuts))
        rows = self.workers.of_spark(raw, counted["rows"]).through(
            partial(values.typed, contract=contract), values.typed_schema(contract)
        )
        kept = snapshot_table(self.name, contract.table)
        is_old = catalog.exists(kept)
        snapshot = iceberg.put(rows.frame, kept)
        if is_old:
            upkeep.expire(self.spark, kept, datetime.now(UTC) - self.source.snapshot_ttl - timedelta(days=1))
        log.info("%s: read into %s", contract.table, kept)
        columns = contract.model_dump(mode="json")
        return contract.table.lower(), {"name": kept, "snapshot": snapshot, "contract": columns}

    def _cuts(self, source: Any, contract: Contract, count: int) -> list[Any]:
        rows = self.source.partition_rows
        if count <= rows:
            return []
        cuts = self.database.rows(sql.cuts(source, contract, rows))
        return [row["cut"] for row in sorted(cuts, key=lambda row: row["place"])]


def _utc(moment: datetime | str) -> datetime:
    return datetime.fromisoformat(str(moment)).replace(tzinfo=UTC)


def _present(contract: Contract, source_columns: list[str]) -> Contract:
    """Reduces the contract to the columns that the source still has. Raises ConfigError if it lacks a key."""
    names = {name.lower() for name in source_columns}
    missing = [c.name for c in contract.columns if c.name.lower() not in names]
    lost = [c.name for c in contract.key if c.name in missing]
    if lost:
        raise ConfigError(
            f"{contract.table} lacks the key column {lost[0]} in the source",
            "name the connection to the right database under `verify:` in the database's YAML",
        )
    if missing:
        log.warning("%s: not in the source, so not verified: %s", contract.table, ", ".join(missing))
    kept = tuple(c for c in contract.columns if c.name not in missing)
    return contract.model_copy(update={"columns": kept})
