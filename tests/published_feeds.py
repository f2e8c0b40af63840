"""Feeds of one database with published ledgers, without running the stages."""

from __future__ import annotations

from datetime import timedelta

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.lake import catalog, refs
from changeledger.model.table_names import TableNames
from changeledger.model.window import Window
from sourcelab.log import Log
from sourcelab.tables import CUSTOMERS, ORDERS, Table
from tests import feeds
from tests.ledger_rows import PLAIN, Manner, contract_of, rows
from tests.reconcile.tables import ledger
from tests.released import DAY, release
from tests.stored_rows import replace_rows

TABLES = (CUSTOMERS, ORDERS)


def feed_of(name: str, database: str) -> Feed:
    return feeds.feed_of(name, *(table.full_name for table in TABLES), database=database)


def publish(feed: Feed, log: Log, manner: Manner = PLAIN) -> None:
    catalog.create_namespace(feed.namespace)
    for table, name in zip(TABLES, _ledgers(feed), strict=True):
        replace_rows(name, ledger(rows(log, table, manner, feed.feed), contract_of(table)))
    release_mains(feed)


def move_main(feed: Feed, log: Log, table: Table) -> None:
    """Moves main of one table, like a release that has not moved the other tables yet."""
    name = TableNames.of(feed.namespace, table.full_name).changes
    replace_rows(name, ledger(rows(log, table, PLAIN, feed.feed), contract_of(table)))


def release_mains(feed: Feed) -> None:
    """Releases the ledgers as main has them."""
    control = ControlStore(Settings().control_url)
    days = timedelta(days=len(control.releases.of_feed(feed.feed)))
    window = Window(start=DAY.start + days, end=DAY.end + days)
    contracts, snapshots = map(contract_of, TABLES), refs.heads(_ledgers(feed), refs.MAIN)
    control.releases.complete(feed.feed, release(control, feed.feed, contracts, window, snapshots))


def _ledgers(feed: Feed) -> list[str]:
    return [TableNames.of(feed.namespace, table.full_name).changes for table in TABLES]
