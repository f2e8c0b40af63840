"""Feeds of one database with published ledgers, without the stages that would lead to them."""

from __future__ import annotations

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.lake import catalog
from changeledger.model.table_names import TableNames
from sourcelab.log import Log
from sourcelab.tables import CUSTOMERS, ORDERS
from tests.ledger_rows import PLAIN, Manner, contract_of, rows
from tests.reconcile.tables import ledger
from tests.released import release

TABLES = (CUSTOMERS, ORDERS)


def feed_of(name: str, database: str) -> Feed:
    return Feed.model_validate(
        {
            "feed": name, "dialect": "ces", "database": database, "connection": "none",
            "source": {"topics": ["t"]}, "tables": [{"table": t.full_name} for t in TABLES],
        }
    )  # fmt: skip


def publish(feed: Feed, log: Log, manner: Manner = PLAIN) -> None:
    control = ControlStore(Settings().control_url)
    catalog.create_namespace(feed.namespace)
    release(control, feed.feed, [contract_of(table) for table in TABLES])
    for table in TABLES:
        changes = ledger(rows(log, table, manner, feed.feed), contract_of(table))
        _replace(TableNames.of(feed.namespace, table.full_name).changes, changes)


def _replace(table: str, rows: pa.Table) -> None:
    """Without Spark: its writes would take most of a test's time."""
    if not catalog.exists(table):
        catalog._catalog().create_table(tuple(table.split(".")[1:]), rows.schema)
    catalog.load(table).overwrite(rows)
