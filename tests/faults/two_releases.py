"""A feed with two releases on real stores, from which tests of resets and of restored stores begin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.lake import refs
from changeledger.model.window import Request, Window
from sourcelab import sqlserver_cdc
from sourcelab.log import Log, simulate
from sourcelab.postgres import plain_url
from sourcelab.services import Postgres
from tests.faults.matrix.lab import State
from tests.integration.line import cdc_feed, lake_name, run, window
from tests.lake_states import lake_of
from tests.ledger_windows import OF_THE_RUN
from tests.stored_rows import stored_rows

TABLES = ("dbo.customers", "dbo.parts")
KINDS = ("", "_history", "_changes")
_CHANGES = 'cdc."dbo_customers_CT"'
_UNREADABLE = (
    f'CREATE TEMP TABLE t AS SELECT * FROM {_CHANGES} LIMIT 1; UPDATE t SET "__$operation" = 9; '
    f"INSERT INTO {_CHANGES} SELECT * FROM t"
)


class TwoReleases(NamedTuple):
    """The feed's stores and files. A row of the first window could not be read.

    - `first`, `second`: the stores after each release.
    - `files`: the warehouse of both.
    - `metadata`: its metadata files at that time.
    """

    log: Log
    source: Postgres
    files: Path
    metadata: frozenset[Path]
    first: State
    second: State

    @classmethod
    def published(cls, spark: SparkSession, source: Postgres, folder: Path) -> TwoReleases:
        log, files, now = simulate(5, 24), folder / "files", State(folder / "now")
        load(source, log, 12)
        with pytest.MonkeyPatch.context() as patch:
            lake = lake_of(spark, now, files, patch)
            run(lake, feed_of(source, patch), following())
            first = now.copy(folder / "first")
            sqlserver_cdc.append(source.url, log, 12, published_to(log))
            run(lake, feed_of(source, patch), following())
        return cls(log, source, files, frozenset(files.rglob("*.metadata.json")), first, now)


def published_to(log: Log) -> int:
    """Returns the number of released transactions; the last ones are for a later run."""
    return len(log.transactions) - 4


def load(source: Postgres, log: Log, to_tx: int) -> None:
    """Loads the source up to a transaction, with a row that cannot be read."""
    sqlserver_cdc.load(source.url, log, to_tx=to_tx)
    with psycopg.connect(plain_url(source.url)) as session:
        session.execute(_UNREADABLE)


def feed_of(source: Postgres, patch: pytest.MonkeyPatch) -> Feed:
    return cdc_feed("day_two", source, patch, tables=[{"table": table} for table in TABLES])


def following(request: Request | None = None) -> Window:
    """Returns a window that begins now, which reads earlier records only because of the position."""
    end = datetime.now(UTC)
    over = window(end, end - timedelta(seconds=1))
    return over if request is None else over.model_copy(update={"request": request})


def control() -> ControlStore:
    return ControlStore(Settings().control_url)


def content(feed: Feed, ref: str = refs.MAIN) -> dict[str, list[str]]:
    """Returns the rows of all published tables, without columns that say which run wrote a row."""

    def of(name: str) -> list[str]:
        cells = stored_rows(name, ref)
        return sorted(repr(sorted((k, v) for k, v in row.items() if k not in OF_THE_RUN)) for row in cells)

    return {table + kind: of(lake_name(feed, table, kind)) for table in TABLES for kind in KINDS}
