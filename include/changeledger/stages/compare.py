"""Compare: the feeds of one database, change by change, up to what all of them have seen.

The fence is the lowest of the feeds' last positions, and not itself compared: a feed's last transaction may
be there in part. Each comparison goes on where the last one of the two feeds ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import Lock

from pyspark.sql import SparkSession

from changeledger.config import Feed, Settings
from changeledger.databases import Database
from changeledger.errors import FeedsDisagree
from changeledger.reconcile import compare, findings, positions
from changeledger.stages.compare_ranges import Reach, Translation, corresponding, feed_range
from changeledger.stages.compare_tables import DIFFER, FINDINGS, Method, Pair, TablePair, spans
from changeledger.stages.run import NAMESPACE, control_store, log
from changeledger.storage import lake
from changeledger.storage.control import ComparisonRow


def run(
    spark: SparkSession, database: Database, feeds: Mapping[str, Feed], again: bool = False
) -> list[ComparisonRow]:
    """Compare all feeds with the reference. `again`: from the beginning, instead of from the last time.

    Raises FeedsDisagree where more than the tolerated number of changes have a verdict; what was found is
    kept before.
    """
    settings = Settings()
    control = control_store(settings)
    reference, others = database.compared(feeds)
    lake.create_namespace(spark, NAMESPACE)
    lake.create(spark, FINDINGS, findings.FINDING_COLUMNS, ["comparison_id"])
    names = ", ".join(feed.feed for feed in others)
    log.info("%s: comparing %s with the reference %s", database.database, names, reference.feed)
    one, *ranges = lake.each(lambda feed: feed_range(spark, feed), [reference, *others])
    writing = Lock()
    rows = []
    for other in ranges:
        rows += _compared(Pair(spark, control, database, one, other, again, writing))
    differing = [row for row in rows if row.outcome == DIFFER]
    if differing:
        raise FeedsDisagree(
            "; ".join(f"{row.feed} {row.table}: {_faults(row)}" for row in differing),
            f"open the report {settings.address(database.report(settings))}, or query {FINDINGS}; "
            "`compare:` in the database's YAML says what is tolerated",
        )
    return rows


def _faults(row: ComparisonRow) -> str:
    return ", ".join(f"{row.counts[v]} {v}" for v in compare.FAULTS if row.counts[v])


def _compared(pair: Pair) -> list[ComparisonRow]:
    one, other = pair.one, pair.other
    name = other.feed.feed
    if not (one.rows and other.rows):
        log.info("%s: %s has no changes yet", name, (other if one.rows else one).feed.feed)
        return []
    if one.unplaced or other.unplaced:
        log.info("%s: one of the feeds has no LSNs: matched by key and sequence", name)
        return _tables(pair, Method(Reach()))
    found = corresponding(pair.spark, one, other)
    log.info("%s: %s", name, positions.said(found.as_json(one.feed.feed, name)))
    if found.lsn == positions.UNKNOWN:
        return _tables(pair, Method(one.reach_by_time(other), found))
    if found.lsn == positions.COMMIT:
        return _tables(pair, Method(one.reach(other), found))
    known, unclear = (one, other) if found.of_other else (other, one)
    translation = Translation(pair.spark, known)
    return _tables(pair, Method(known.reach(translation.translated(unclear)), found, translation))


def _tables(pair: Pair, method: Method) -> list[ComparisonRow]:
    """Each table that both feeds have, as far as it has not been compared."""
    both = pair.one.ledgers.keys() & pair.other.ledgers.keys()
    ended = {} if pair.again else _ended(pair)
    todo = []
    for table in (t.table for t in pair.one.feed.tables if t.table.lower() in both):
        reach = method.reach
        if reach.since is not None:
            reach = reach._replace(since=max(reach.since, ended.get(table, b"")))
        if reach.is_empty:
            log.info("%s: %s: nothing new that both have seen", pair.other.feed.feed, table)
            continue
        todo.append(TablePair(pair, table, replace(method, reach=reach)))
    times = spans(todo)
    return lake.each(lambda one: one.compared(times[one.table]), todo)


def _ended(pair: Pair) -> dict[str, bytes]:
    """Where the comparisons of each table have ended so far."""
    ended: dict[str, bytes] = {}
    for row in pair.control.comparisons(pair.database.database):
        if (row.reference, row.feed) == (pair.one.feed.feed, pair.other.feed.feed) and row.to_lsn:
            ended[row.table] = max(ended.get(row.table, b""), bytes.fromhex(row.to_lsn))
    return ended
