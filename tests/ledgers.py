"""The rows of `tests.ledger_rows` as DataFrames."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from changeledger import change
from changeledger.reconcile import history
from changeledger.reconcile.proof import Published
from sourcelab.log import Log
from sourcelab.tables import Table
from tests.ledger_rows import (
    PLAIN,
    Manner,
    apart,
    changes,
    contract_of,
    joined,
    operations,
    rows,
    unknown_before,
)

__all__ = [
    "PLAIN", "Manner", "apart", "changes", "contract_of", "joined", "ledger", "operations", "published",
    "unknown_before",
]  # fmt: skip


def ledger(
    spark: SparkSession, log: Log, table: Table, manner: Manner = PLAIN, feed: str = "feed"
) -> DataFrame:
    """The columns of `change.ledger_columns` of the table's contract."""
    kinds = change.ledger_columns(contract_of(table))
    schema = ", ".join(f"{change.quoted(name)} {kind}" for name, kind in kinds)
    found = [tuple(row.get(name) for name, _ in kinds) for row in rows(log, table, manner, feed)]
    return spark.createDataFrame(found, schema)


def published(
    spark: SparkSession, log: Log, table: Table, manner: Manner = PLAIN, feed: str = "feed"
) -> Published:
    """Current rows and history that stand on the ledger, as reconcile would build them."""
    contract = contract_of(table)
    told = history.effects(ledger(spark, log, table, manner, feed), contract)
    made = history.intervals(told, contract, "run").persist()
    alive = made.where(made["_valid_to"].isNull() & ~made["_is_deleted"])
    current = alive.select(*(alive[name] for name, _ in change.current_columns(contract)))
    return Published(current, made, contract)
