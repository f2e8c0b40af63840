"""Compare: compares the feeds of one database, change by change, up to what all of them have seen.

The fence is the lowest of the feeds' last positions. It is itself excluded, since a feed may have only a part
of its last transaction. Each comparison continues where the last one of the two feeds ended, or where an open
disagreement begins. A disagreement is open until the feeds agree there or somebody accepts it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import SparkSession

from changeledger.compare import positions
from changeledger.compare.log import no_repairs
from changeledger.compare.verdicts import FAULTS
from changeledger.config.database import Database
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ComparisonRow, ControlStore
from changeledger.lake.parallel import parallel_map
from changeledger.model.errors import FeedsDisagree
from changeledger.model.table_names import FINDINGS
from changeledger.spark.rows import Workers
from changeledger.spark.session import for_small_data
from changeledger.stages.common.context import control_store, log
from changeledger.stages.common.databases import first_row
from changeledger.stages.common.publishing import require_names
from changeledger.stages.common.stored import Stored
from changeledger.stages.comparison.findings import FindingsWriter
from changeledger.stages.comparison.matching import Method
from changeledger.stages.comparison.ranges import FeedRange, Translation, corresponding, with_extent
from changeledger.stages.comparison.tables import Pair, TablePair


def run(
    spark: SparkSession, database: Database, feeds: Mapping[str, Feed], full: bool = False
) -> list[ComparisonRow]:
    """Compares all feeds with the reference. `full`: from the beginning, instead of since the last time.

    Raises FeedsDisagree, with the findings saved, while this run or an earlier one has more disagreements
    than are tolerated; LeaseHeld while another process compares the database or erases a row of it.
    """
    settings = Settings()
    control = control_store(settings)
    reference, others = database.compared(feeds)
    require_names(control, reference, *others)
    for_small_data(spark)
    names = ", ".join(feed.feed for feed in others)
    log.info("%s: comparing %s with the reference %s", database.database, names, reference.feed)
    rows: list[ComparisonRow] = []
    with Workers(lambda: spark) as workers, FindingsWriter.opened(workers, control, database) as writer:
        compared = [reference, *others]
        published = parallel_map(lambda feed: _published(spark, workers, control, feed), compared)
        reference_range, *ranges = workers.each(with_extent, published)
        for other in ranges:
            rows += _compared(Pair(control, database, reference_range, other, full), writer)
    pairs = {(reference.feed, other.feed) for other in others}
    differing = [
        row
        for row in control.comparisons.disagreements(database.database)
        if (row.reference, row.feed) in pairs
    ]
    if differing:
        raise FeedsDisagree(
            "; ".join(f"{row.feed} {row.table}: {_faults(row)}" for row in differing)
            + first_row(spark, FINDINGS, "comparison_id", [row.id for row in differing]),
            f"open the report {settings.address(database.report(settings))}, or query {FINDINGS}. Each run "
            "compares this part of the log again, until the feeds agree, `compare:` in the database's YAML "
            f"tolerates it, or `changeledger compare {database.database} --accept REASON` accepts it",
        )
    return rows


def _published(spark: SparkSession, workers: Workers, control: ControlStore, feed: Feed) -> FeedRange:
    """Opens the feed's ledgers at its last completed release, without repairs, which no tool has captured.

    Reads the release and not main: a release in progress moves one table after the other, so tables would
    be of different releases.
    """
    release = control.releases.latest_completed(feed.feed)
    if release is None:
        return FeedRange(feed, {}, {})
    ledgers = {
        table.lower(): replace(
            Stored.of(spark, workers, names.changes),
            snapshot=release.tables[names.changes],
            only=(no_repairs, "flags"),
        )
        for table, names in feed.names.items()
        if names.changes in release.tables
    }
    contracts = control.contracts.of_feed(feed.feed, release=release.id)
    return FeedRange(feed, ledgers, {t.lower(): contracts[t] for t in feed.names if t in contracts})


def _faults(row: ComparisonRow) -> str:
    return ", ".join(f"{row.counts[v]} {v}" for v in FAULTS if row.counts[v])


def _compared(pair: Pair, writer: FindingsWriter) -> list[ComparisonRow]:
    reference, other = pair.reference, pair.other
    if not (reference.rows and other.rows):
        log.info(
            "%s: %s has no changes yet", other.feed.feed, (other if reference.rows else reference).feed.feed
        )
        return []
    return _tables(pair, _method(pair), writer)


def _method(pair: Pair) -> Method:
    reference, other = pair.reference, pair.other
    name = other.feed.feed
    if reference.unplaced or other.unplaced:
        log.info("%s: one of the feeds has no LSNs: matched by key and sequence", name)
        return Method(reference.reach_by_time(other))
    correspondence = corresponding(reference, other)
    log.info("%s: %s", name, positions.said(correspondence.as_json(reference.feed.feed, name)))
    if correspondence.lsn == positions.UNKNOWN:
        return Method(reference.reach_by_time(other), correspondence)
    if correspondence.lsn == positions.COMMIT:
        return Method(reference.reach(other), correspondence)
    known, unclear = (reference, other) if correspondence.of_other else (other, reference)
    translation = Translation(known)
    return Method(known.reach(translation.translated(unclear)), correspondence, translation)


def _tables(pair: Pair, method: Method, writer: FindingsWriter) -> list[ComparisonRow]:
    """Compares each table that both feeds have, from where the last settled comparison ended."""
    both = pair.reference.ledgers.keys() & pair.other.ledgers.keys()
    if alone := sorted(pair.reference.ledgers.keys() ^ pair.other.ledgers.keys()):
        log.warning(
            "%s: not compared, because only one feed has it: %s", pair.other.feed.feed, ", ".join(alone)
        )
    names = pair.database.database, pair.reference.feed.feed, pair.other.feed.feed
    settled = {} if pair.full else pair.control.comparisons.settled(*names)
    todo = []
    for table in (t.table for t in pair.reference.feed.tables if t.table.lower() in both):
        reach = method.reach
        if reach.since is not None:
            reach = reach._replace(since=max(reach.since, bytes.fromhex(settled.get(table, ""))))
        if reach.is_empty:
            log.info("%s: %s: nothing new that both have seen", pair.other.feed.feed, table)
            continue
        timed = None if method.translation is None else method.translation.timed(reach)
        todo.append(TablePair(pair, table, replace(method, reach=reach, translation=timed)))
    return writer.workers.each(lambda table_pair: table_pair.compared(writer), todo)
