"""Compare: the feeds of one database, change by change, up to what all of them have seen.

The fence is the lowest of the feeds' last positions, and not itself compared: a feed's last transaction may
be there in part. Each comparison goes on where the last one of the two feeds ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger import change
from changeledger.config import Feed, Settings
from changeledger.contract import distinct_names
from changeledger.databases import Counted, Database
from changeledger.errors import FeedsDisagree
from changeledger.plans import Keep, at_hand
from changeledger.reconcile import compare, findings
from changeledger.reconcile.compare import Columns, Side
from changeledger.reconcile.first_look import first_look
from changeledger.reconcile.second_look import second_look
from changeledger.reconcile.tally import Span, Tally, counted, counted_alike, tally, tally_alike
from changeledger.stages.run import NAMESPACE, control_store, log
from changeledger.storage import lake
from changeledger.storage.control import ComparisonRow, ControlStore

FINDINGS = f"lake.{NAMESPACE}.findings"

AGREE, WARN, DIFFER = "agree", "warn", "differ"

# So many places are sent to all that read the ledgers again, instead of these to them.
_BROADCAST = 100_000

# `[from, to)`; without LSNs, of all there is.
Reach = tuple[bytes | None, bytes | None]


class Told(NamedTuple):
    """What a feed has of the log: the first LSN that it tells completely, and the last that it has begun."""

    feed: Feed
    # The ledgers in the lake, by table in lower case.
    ledgers: Mapping[str, str]
    first: bytes | None = None
    last: bytes | None = None
    # Has it changes of the log without an LSN?
    unplaced: bool = False


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
    one, rows = _told_by(spark, reference), []
    for other in others:
        rows += _Pair(spark, control, database, one, _told_by(spark, other), again).compared()
    differing = [row for row in rows if row.outcome == DIFFER]
    if differing:
        raise FeedsDisagree(
            "; ".join(f"{row.feed} {row.table}: {_faults(row)}" for row in differing),
            f"open the report {database.report(settings)}, or query {FINDINGS}; "
            "`compare:` in the database's YAML says what is tolerated",
        )
    return rows


def worst(outcomes: Iterable[str]) -> str:
    """The gravest of the outcomes; AGREE where there are none."""
    return max(outcomes, key=(AGREE, WARN, DIFFER).index, default=AGREE)


def _faults(row: ComparisonRow) -> str:
    return ", ".join(f"{row.counts[v]} {v}" for v in compare.FAULTS if row.counts[v])


def _told_by(spark: SparkSession, feed: Feed) -> Told:
    names = distinct_names(feed.namespace, [t.table for t in feed.tables])
    ledgers = {t.lower(): n.changes for t, n in names.items() if lake.exists(spark, n.changes)}
    streamed = F.col("operation") != change.SNAPSHOT
    lsn = F.col("commit_lsn")
    ends = [
        _told(spark, ledger).agg(
            F.min(F.when(streamed, lsn)).alias("first"),
            F.max(lsn).alias("last"),
            F.min(F.when(~streamed, lsn)).alias("loaded"),
            F.coalesce(F.bool_or(streamed & lsn.isNull()), F.lit(False)).alias("unplaced"),
        )
        for ledger in ledgers.values()
    ]
    if not ends:
        return Told(feed, ledgers)
    both = reduce(DataFrame.unionByName, ends).agg(
        *(F.min(n).alias(n) for n in ("first", "loaded")),
        F.max("last").alias("last"),
        F.bool_or("unplaced").alias("unplaced"),
    )
    row = both.collect()[0]
    first, loaded = row["first"], row["loaded"]
    # A first snapshot shows all up to its own position; the log is told from behind it.
    if loaded is not None and (first is None or loaded < first):
        first = _behind(bytes(loaded))
    return Told(feed, ledgers, _bytes(first), _bytes(row["last"]), row["unplaced"])


def _told(spark: SparkSession, ledger: str) -> DataFrame:
    """What the feed's tool has told: all but repairs."""
    is_repair = F.coalesce(F.array_contains("flags", change.REPAIRED), F.lit(False))
    return lake.read(spark, ledger).where(~is_repair)


def _bytes(value: bytearray | bytes | None) -> bytes | None:
    return None if value is None else bytes(value)


def _behind(lsn: bytes) -> bytes:
    return (int.from_bytes(lsn) + 1).to_bytes(len(lsn))


class _Pair(NamedTuple):
    """The reference and the feed that is compared with it."""

    spark: SparkSession
    control: ControlStore
    database: Database
    one: Told
    other: Told
    again: bool

    @property
    def by_position(self) -> bool:
        return not (self.one.unplaced or self.other.unplaced)

    def compared(self) -> list[ComparisonRow]:
        one, other = self.one, self.other
        by_position = self.by_position
        ends = (one.first, other.first, one.last, other.last)
        if by_position and None in ends:
            log.info("%s, %s: one has no changes yet", one.feed.feed, other.feed.feed)
            return []
        since = max(filter(None, (one.first, other.first)), default=None)
        until = min(filter(None, (one.last, other.last)), default=None)
        both = one.ledgers.keys() & other.ledgers.keys()
        ended = {} if self.again else self._ended()
        found = []
        for table in (t.table for t in one.feed.tables if t.table.lower() in both):
            begin = max(filter(None, (since, ended.get(table))), default=None)
            if by_position and begin is not None and until is not None and begin >= until:
                log.info("%s: %s: nothing new that both have seen", other.feed.feed, table)
                continue
            found.append(self._table(table, (begin, until) if by_position else (None, None)))
        return found

    def _ended(self) -> dict[str, bytes]:
        """Where the comparisons of each table have ended so far."""
        ended: dict[str, bytes] = {}
        for row in self.control.comparisons(self.database.database):
            if (row.reference, row.feed) == (self.one.feed.feed, self.other.feed.feed) and row.to_lsn:
                ended[row.table] = max(ended.get(row.table, b""), bytes.fromhex(row.to_lsn))
        return ended

    def _side(self, told: Told, table: str, reach: Reach) -> Side:
        contract = self.control.contract(told.feed.feed, table)
        assert contract is not None, "its ledger is published"
        return Side(_told(self.spark, told.ledgers[table.lower()]).where(_within(reach)), contract)

    def _table(self, table: str, reach: Reach) -> ComparisonRow:
        one, other = (self._side(told, table, reach) for told in (self.one, self.other))
        columns = Columns.of(one.contract, other.contract)
        span = _span(one, other)
        from_lsn, to_lsn = (None if end is None else end.hex().upper() for end in reach)
        reference, feed = self.one.feed.feed, self.other.feed.feed
        comparison_id = f"{reference}.{feed}.{table}.{from_lsn}.{to_lsn}"
        named = {
            "database": self.database.database,
            "table": table,
            "reference": reference,
            "feed": feed,
        }
        with at_hand() as keep:
            faulty, result = self._matched(one, other, columns, span, keep)
            if faulty is not None:
                looked = keep(second_look(faulty, columns))
                rest = looked.where(F.col("verdict").isin(*compare.FAULTS))
                self._keep(findings.detailed(rest, one, other, columns), comparison_id, named)
                result = _looked_again(result, looked, columns)
            elif self.again:
                self._keep(self.spark.table(FINDINGS).limit(0), comparison_id, named)
        row = ComparisonRow(
            id=comparison_id,
            **named,
            from_lsn=from_lsn,
            to_lsn=to_lsn,
            from_time=span.since,
            to_time=span.until,
            outcome=self._outcome(result),
            counts=result.counts,
            columns=result.columns,
            spans=[list(span) for span in result.spans],
            at=datetime.now(UTC),
        )
        self.control.save_comparison(row)
        log.info("%s: %s: %s, %d equal", feed, table, row.outcome, result.counts[compare.EQUAL])
        return row

    def _matched(
        self, one: Side, other: Side, columns: Columns, span: Span, keep: Keep
    ) -> tuple[DataFrame | None, Tally]:
        """The effects with a fault, kept at hand, where there are any; and what all of them count."""
        if not self.by_position:
            return _faulty(compare.matched(one, other, columns, by_position=False), columns, span, keep)
        looked, seen = counted_alike(first_look(one, other, columns), span)
        rest = keep(looked.where(~F.col("alike")).select(*compare.PLACE))
        left = rest.count()
        alike = tally_alike(seen.get)
        if not left:
            return None, alike
        within = F.broadcast(rest) if left <= _BROADCAST else rest
        found = compare.matched(one, other, columns, True, within)
        faulty, result = _faulty(found, columns, span, keep)
        return faulty, alike.plus(result)

    def _keep(self, found: DataFrame, comparison_id: str, named: Mapping[str, str]) -> None:
        """The findings in the lake, in place of those of the same comparison before."""
        of_all = {"comparison_id": comparison_id, **named}
        lake.replace_named(found, FINDINGS, findings.FINDING_COLUMNS, "comparison_id", of_all)

    def _outcome(self, result: Tally) -> str:
        def too_many(limits: Mapping[Counted, int]) -> bool:
            return any(result.counts[verdict] > most for verdict, most in limits.items())

        tolerance = self.database.compare
        return DIFFER if too_many(tolerance.fail_above) else WARN if too_many(tolerance.warn_above) else AGREE


def _faulty(matched: DataFrame, columns: Columns, span: Span, keep: Keep) -> tuple[DataFrame | None, Tally]:
    told, seen = counted(matched, columns, span)
    faulty = keep(told.where(F.col("verdict").isin(*compare.FAULTS)))
    return faulty if faulty.count() else None, tally(seen.get, columns)


def _looked_again(result: Tally, looked: DataFrame, columns: Columns) -> Tally:
    """The counts with what a second look has made of the faults."""
    counts = {**result.counts, **dict.fromkeys(compare.FAULTS, 0)}
    for row in looked.groupBy("verdict", "class").count().collect():
        for name in filter(None, (row["verdict"], row["class"])):
            counts[name] += row["count"]
    by_column = {name: dict(told) for name, told in result.columns.items()}
    spoilt = looked.where(F.col("verdict") == compare.DIFFERS).select(F.explode("columns").alias("number"))
    for row in spoilt.groupBy("number").count().collect():
        name = columns.names[row["number"]] if row["number"] >= 0 else compare.OPERATION
        by_column.setdefault(name, {})[compare.DIFFERS] = row["count"]
    return result._replace(counts=counts, columns=by_column)


def _within(reach: Reach) -> Column:
    since, until = reach
    if since is None or until is None:
        return F.lit(True)
    return (F.col("commit_lsn") >= F.lit(since)) & (F.col("commit_lsn") < F.lit(until))


def _span(*sides: Side) -> Span:
    """The first and the last commit time of what is compared."""
    told = reduce(DataFrame.unionByName, (side.changes.select("committed_at") for side in sides))
    micros = F.unix_micros("committed_at")
    row = told.agg(F.min(micros).alias("first"), F.max(micros).alias("last")).collect()[0]
    if row["first"] is None:
        now = datetime.now(UTC)
        return Span(now, now)
    return Span(*(datetime.fromtimestamp(row[n] / 1e6, UTC) for n in ("first", "last")))
