"""Compare: the feeds of one database, change by change, up to what all of them have seen.

The fence is the lowest of the feeds' last positions, and not itself compared: a feed's last transaction may
be there in part. Each comparison goes on where the last one of the two feeds ended, or where an open
disagreement of theirs begins: it is open until they agree there, or somebody accepts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from changeledger.compare import positions
from changeledger.compare.log import no_repairs
from changeledger.compare.verdicts import FAULTS
from changeledger.config.database import Database
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ComparisonRow
from changeledger.lake import catalog
from changeledger.lake.parallel import parallel_map
from changeledger.model.errors import FeedsDisagree
from changeledger.model.table_names import FINDINGS
from changeledger.spark.rows import Workers
from changeledger.spark.session import for_small_data
from changeledger.stages.common.context import control_store, log
from changeledger.stages.common.first_row import first_row
from changeledger.stages.common.publishing import require_names
from changeledger.stages.common.stored import Stored
from changeledger.stages.comparison.findings import FindingsWriter
from changeledger.stages.comparison.matching import Method
from changeledger.stages.comparison.ranges import Translation, corresponding, feed_range
from changeledger.stages.comparison.tables import Pair, TablePair


def run(
    spark: SparkSession, database: Database, feeds: Mapping[str, Feed], full: bool = False
) -> list[ComparisonRow]:
    """Compare all feeds with the reference. `full`: from the beginning, instead of from the last time.

    Raises FeedsDisagree while more changes than are tolerated have a verdict, of this run or of one before;
    the findings are saved before.
    """
    settings = Settings()
    control = control_store(settings)
    reference, others = database.compared(feeds)
    require_names(control, reference, *others)
    for_small_data(spark)
    names = ", ".join(feed.feed for feed in others)
    log.info("%s: comparing %s with the reference %s", database.database, names, reference.feed)
    rows: list[ComparisonRow] = []
    with Workers(lambda: spark) as workers, FindingsWriter.opened(workers, control) as writer:
        feed_ledgers = _ledgers(spark, workers, [reference, *others])
        reference_range, *ranges = workers.each(
            lambda feed: feed_range(feed, feed_ledgers[feed.feed]), [reference, *others]
        )
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


def _ledgers(spark: SparkSession, workers: Workers, feeds: Sequence[Feed]) -> dict[str, dict[str, Stored]]:
    """What the tools have captured, so without repairs: by feed and table, in lower case, the ledgers that
    are there."""

    def of_feed(feed: Feed) -> dict[str, Stored]:
        tables = set(catalog.tables(feed.namespace))
        return {
            table.lower(): replace(Stored.of(spark, workers, names.changes), only=(no_repairs, "flags"))
            for table, names in feed.names.items()
            if names.changes in tables
        }

    return dict(zip((f.feed for f in feeds), parallel_map(of_feed, feeds), strict=True))


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
    """Each table that both feeds have, as far as they have not been compared with a result that stands."""
    both = pair.reference.ledgers.keys() & pair.other.ledgers.keys()
    if alone := sorted(pair.reference.ledgers.keys() ^ pair.other.ledgers.keys()):
        log.warning("%s: not compared, for one feed alone has it: %s", pair.other.feed.feed, ", ".join(alone))
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
