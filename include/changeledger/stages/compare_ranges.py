"""What part of the log each feed has, and what part of it two feeds have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger import change
from changeledger.config import Feed
from changeledger.contract import distinct_names
from changeledger.reconcile import positions
from changeledger.reconcile.positions import Lsns, Positions
from changeledger.storage import catalog, lake

# Tools round commit times, to a second at most, and take some of them from clocks of their own.
SLACK: Final = timedelta(seconds=5)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Reach(NamedTuple):
    """The part `[since, until)` of a log, by commit LSN, by commit time, or all of it."""

    since: bytes | None = None
    until: bytes | None = None
    since_time: datetime | None = None
    until_time: datetime | None = None

    @property
    def is_empty(self) -> bool:
        pairs = ((self.since, self.until), (self.since_time, self.until_time))
        return any(a is not None and b is not None and a >= b for a, b in pairs)  # type: ignore[operator]

    def holds(self) -> Column:
        """Of a change. By time, a little more at both ends: of that nothing can be missing, or extra."""
        if self.since is not None and self.until is not None:
            lsn = F.col("commit_lsn")
            return (lsn >= F.lit(self.since)) & (lsn < F.lit(self.until))
        if self.since_time is not None and self.until_time is not None:
            return within(self.since_time - SLACK, self.until_time + SLACK)
        return F.lit(True)

    def is_in_both(self, time: Column) -> Column:
        """Must both feeds have a change of that commit time?"""
        if self.since_time is None or self.until_time is None:
            return F.lit(True)
        return within(self.since_time + SLACK, self.until_time - SLACK, time)


class FeedRange(NamedTuple):
    """What a feed has of the log: the first LSN that it has completely, and the last that it has begun."""

    feed: Feed
    # The ledgers in the lake, by table in lower case; and those that have updates of keys.
    ledgers: Mapping[str, str] = {}
    moving: frozenset[str] = frozenset()
    # Changes of the log.
    rows: int = 0
    first: bytes | None = None
    last: bytes | None = None
    # The change LSNs, where the feed has them.
    changes: tuple[bytes | None, bytes | None] = (None, None)
    since: datetime | None = None
    until: datetime | None = None
    # Has it changes of the log without an LSN?
    unplaced: bool = False

    def reach(self, other: FeedRange) -> Reach:
        """What both have, by LSN."""
        since = max(filter(None, (self.first, other.first)), default=None)
        return Reach(since, min(filter(None, (self.last, other.last)), default=None))

    def reach_by_time(self, other: FeedRange) -> Reach:
        """What both have, by time."""
        since = max(filter(None, (self.since, other.since)), default=None)
        until = min(filter(None, (self.until, other.until)), default=None)
        return Reach(since_time=since, until_time=until)


def feed_range(spark: SparkSession, feed: Feed) -> FeedRange:
    names = distinct_names(feed.namespace, [t.table for t in feed.tables])
    there = set(catalog.tables(feed.namespace))
    ledgers = {t.lower(): n.changes for t, n in names.items() if n.changes in there}
    if not ledgers:
        return FeedRange(feed)
    each = [_extent(captured(spark, ledger)).withColumn("table", F.lit(t)) for t, ledger in ledgers.items()]
    rows = reduce(DataFrame.unionByName, each).collect()
    first, loaded = (_least(rows, name) for name in ("first", "loaded"))
    # A first snapshot shows all up to its own position; the log goes on behind it.
    if loaded is not None and (first is None or loaded < first):
        first = _behind(loaded)
    times = [row[name] for row in rows for name in ("since", "until") if row[name] is not None]
    return FeedRange(
        feed,
        ledgers,
        frozenset(row["table"] for row in rows if row["moves"]),
        sum(row["rows"] for row in rows),
        first,
        _greatest(rows, "last"),
        (_least(rows, "first_change"), _greatest(rows, "last_change")),
        _moment(min(times, default=None)),
        _moment(max(times, default=None)),
        any(row["unplaced"] for row in rows),
    )


def _extent(ledger: DataFrame) -> DataFrame:
    streamed = F.col("operation") != change.SNAPSHOT
    lsn, own = F.col("commit_lsn"), F.col("change_lsn")
    micros = F.when(streamed, F.unix_micros("committed_at"))
    no = F.lit(False)
    return ledger.agg(
        F.count_if(streamed).alias("rows"),
        F.min(F.when(streamed, lsn)).alias("first"),
        F.max(lsn).alias("last"),
        F.min(F.when(~streamed, lsn)).alias("loaded"),
        F.min(F.when(streamed, own)).alias("first_change"),
        F.max(F.when(streamed, own)).alias("last_change"),
        F.min(micros).alias("since"),
        F.max(micros).alias("until"),
        F.coalesce(F.bool_or(streamed & lsn.isNull()), no).alias("unplaced"),
        F.coalesce(F.bool_or(F.col("previous_key").isNotNull()), no).alias("moves"),
    )


def captured(spark: SparkSession, ledger: str) -> DataFrame:
    """What the feed's tool has captured: all but repairs."""
    is_repair = F.coalesce(F.array_contains("flags", change.REPAIRED), F.lit(False))
    return lake.read(spark, ledger).where(~is_repair)


def corresponding(spark: SparkSession, one: FeedRange, other: FeedRange) -> Positions:
    """How the positions of the two feeds correspond."""
    return positions.found(_lsns(spark, one), _lsns(spark, other))


def _lsns(spark: SparkSession, one: FeedRange) -> Lsns:
    return Lsns(_of_log(spark, one), one.rows, (one.first, one.last), one.changes)


def _of_log(spark: SparkSession, one: FeedRange) -> DataFrame:
    """LSNs and commit times of all changes of the log."""
    ledgers = (
        captured(spark, ledger).where(F.col("operation") != change.SNAPSHOT)
        .select("commit_lsn", "change_lsn", "committed_at")
        for ledger in one.ledgers.values()
    )  # fmt: skip
    return reduce(DataFrame.unionByName, ledgers)


class Translation(NamedTuple):
    """The commit LSNs of a feed whose positions are change LSNs, by the ledger of a feed that has both."""

    spark: SparkSession
    known: FeedRange

    def translated(self, one: FeedRange) -> FeedRange:
        """The first and the last commit of the feed that the other one has, too."""
        placed = positions.placed(
            _of_log(self.spark, one), positions.commits(_of_log(self.spark, self.known))
        )
        row = placed.where("is_placed").agg(F.min("commit_lsn"), F.max("commit_lsn")).collect()[0]
        return one._replace(first=_bytes(row[0]), last=_bytes(row[1]))

    def changes(self, ledger: DataFrame, table: str, reach: Reach) -> DataFrame:
        """Those that are in reach. A change that the other feed lacks has no commit LSN: its time counts."""
        known = positions.commits(captured(self.spark, self.known.ledgers[table]))
        rows = positions.placed(ledger, known)
        since, until = self._times(reach)
        in_time = within(since - SLACK, until - SLACK)
        return rows.where(F.when(F.col("is_placed"), reach.holds()).otherwise(in_time)).drop("is_placed")

    def _times(self, reach: Reach) -> Sequence[datetime]:
        """The commit times at which the reach begins and ends."""
        micros, lsn = F.unix_micros("committed_at"), F.col("commit_lsn")
        ends = [F.min(F.when(lsn >= F.lit(end), micros)) for end in (reach.since, reach.until)]
        found = [_moment(at) for at in _of_log(self.spark, self.known).agg(*ends).collect()[0]]
        return [at or datetime.now(UTC) for at in found]


def within(since: datetime, until: datetime, time: Column | None = None) -> Column:
    """Is a change's commit time in `[since, until)`?"""
    micros = F.unix_micros(F.col("committed_at") if time is None else time)
    return (micros >= F.lit(_micros(since))) & (micros < F.lit(_micros(until)))


def _micros(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)


def _bytes(value: bytearray | bytes | None) -> bytes | None:
    return None if value is None else bytes(value)


def _known(rows: Sequence[Any], name: str) -> list[bytes]:
    return [bytes(row[name]) for row in rows if row[name] is not None]


def _least(rows: Sequence[Any], name: str) -> bytes | None:
    return min(_known(rows, name), default=None)


def _greatest(rows: Sequence[Any], name: str) -> bytes | None:
    return max(_known(rows, name), default=None)


def _behind(lsn: bytes) -> bytes:
    return (int.from_bytes(lsn) + 1).to_bytes(len(lsn))
