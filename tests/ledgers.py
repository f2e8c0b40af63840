"""The rows of `tests.ledger_rows` as DataFrames, and the tables that reconcile builds from a ledger."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile.buckets import current
from changeledger.spark.rows import spark_schema
from sourcelab.log import Log
from sourcelab.tables import Table
from tests.ledger_rows import PLAIN, Manner, apart, changes, contract_of, joined, rows
from tests.reconcile import tables

__all__ = [
    "PLAIN", "Manner", "apart", "changes", "contract_of", "joined", "ledger", "published", "published_of",
]  # fmt: skip


def ledger(
    spark: SparkSession, log: Log, table: Table, manner: Manner = PLAIN, feed: str = "feed"
) -> DataFrame:
    """Returns the ledger, with the columns of `change.ledger_columns` of the table's contract."""
    kinds = change.ledger_columns(contract_of(table))
    schema = ", ".join(f"{change.quoted(name)} {kind}" for name, kind in kinds)
    cells = [tuple(row.get(name) for name, _ in kinds) for row in rows(log, table, manner, feed)]
    return spark.createDataFrame(cells, schema)


class Published(NamedTuple):
    """One table of a feed, as a release has it."""

    current: DataFrame
    history: DataFrame


def published(
    spark: SparkSession, log: Log, table: Table, manner: Manner = PLAIN, feed: str = "feed"
) -> Published:
    """Returns the current rows and history that reconcile builds from the ledger."""
    return published_of(spark, rows(log, table, manner, feed), contract_of(table))


def published_of(
    spark: SparkSession, ledger_rows: Iterable[dict[str, Any]], contract: Contract, run: str = "run"
) -> Published:
    built = tables.all_at_once(tables.ledger(ledger_rows, contract), contract, run)
    alive = current(built.opened, contract)
    history = pa.concat_tables([built.closed, built.opened])
    frames = (
        spark.createDataFrame(table.combine_chunks(), spark_schema(table.schema))
        for table in (alive, history)
    )
    return Published(*frames)
