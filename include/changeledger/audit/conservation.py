"""Conservation: every raw record of the run has exactly one disposition, per topic or capture table, and of
records that repeat one another one is a change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from changeledger import change
from changeledger.audit.rules import Rule
from changeledger.config import Feed
from changeledger.looks import SourceLook
from changeledger.window import SourceRead


@dataclass(frozen=True)
class Balance:
    """One source's records of the run: `raw` were read, `dispositions` says what became of how many.

    `lost`: read, without a disposition. `doubled`: accounted for more often than read.
    """

    source: str
    raw: int
    dispositions: dict[str, int]
    lost: int = 0
    doubled: int = 0

    def __str__(self) -> str:
        parts = (
            " + ".join(f"{n:,} {name}" for name, n in sorted(self.dispositions.items()))
            or "none accounted for"
        )
        faults = f"; {self.lost:,} lost, {self.doubled:,} doubled" if self.lost or self.doubled else ""
        return f"{self.source}: {self.raw:,} read = {parts}{faults}"


def balance(raw: DataFrame, accounted: DataFrame) -> list[Balance]:
    """The books of one run, a source each, by name.

    `raw` has the column `record`, `accounted` has `record` and `disposition`. Both sides are compared by
    their counts and by sums of hashes, which are the same for the same records in any order and need no
    shuffle; only where they differ the records themselves are joined.
    """
    books: dict[str, dict[str, tuple[int, int, int]]] = {}
    for row in _sums(raw.select("record", F.lit("").alias("disposition")), accounted).collect():
        books.setdefault(row["source"], {})[row["disposition"]] = (row["n"], row["low"], row["high"])
    wrong = [source for source, sides in books.items() if not _even(sides)]
    faults = _faults(raw, accounted, wrong) if wrong else {}
    balances = []
    for source, sides in sorted(books.items()):
        counts = {name: numbers[0] for name, numbers in sides.items() if name}
        fault = faults.get(source)
        lost, doubled = (fault["lost"], fault["doubled"]) if fault else (0, 0)
        balances.append(Balance(source, sides.get("", (0, 0, 0))[0], counts, lost, doubled))
    return balances


def imbalance(raw: DataFrame, accounted: DataFrame, sources: Sequence[str]) -> DataFrame:
    """The records of `sources` that were lost or accounted for too often."""
    one, none = F.lit(1).cast("bigint"), F.lit(0).cast("bigint")
    read = raw.select("record", one.alias("read"), none.alias("accounted"), F.lit(None).alias("disposition"))
    said = accounted.select("record", none.alias("read"), one.alias("accounted"), "disposition")
    return (
        read.unionByName(said)
        .where(_source().isin(list(sources)))
        .groupBy("record")
        .agg(
            F.sum("read").alias("read"),
            F.sum("accounted").alias("accounted"),
            F.sort_array(F.collect_set("disposition")).alias("dispositions"),
        )
        .where(F.col("read") != F.col("accounted"))
    )


def source_rules(
    reads: Sequence[SourceRead], received: Mapping[str, int], late: Sequence[SourceLook], spark: SparkSession
) -> list[Rule]:
    """Is raw what the source had? `received`: the window's raw rows by source, as they are now.

    `late`: the sources on which the feed cannot read on.
    """
    found = [(r.source, r.asked, received.get(r.source, 0), r.problem or "") for r in reads]
    known = {read.source: read.received for read in reads}
    wrong = [row for row in found if row[3] or row[2] != known[row[0]]]
    asked, came = sum(r.asked for r in reads), sum(r.received for r in reads)
    removed = [(r.source, r.before) for r in reads if r.before]
    waiting = [(look.source, look.behind, look.since, look.why) for look in late]
    sources = f"{len(reads):,} sources, {asked:,} offsets or rows asked for, {came:,} records received"
    return [
        Rule(
            "source_complete",
            "record",
            f"Raw has what the source had. Offsets without a record are marks of transactions. {sources}.",
            spark.createDataFrame(wrong, "source string, asked bigint, received bigint, problem string"),
            counted=len(wrong),
            severity="critical",
        ),
        Rule(
            "source_from_its_beginning",
            "record",
            "A partition that the feed reads for the first time still has its first record; what retention "
            "has removed before is not in the lake.",
            spark.createDataFrame(removed, "source string, removed bigint"),
            counted=len(removed),
            severity="warning",
        ),
        Rule(
            "source_is_read_on",
            "record",
            "Nothing waits at the source for longer than `late_after`: no open transaction, no capture that "
            "stands still.",
            spark.createDataFrame(waiting, "source string, behind bigint, since timestamp, why string"),
            counted=len(waiting),
            severity="warning",
        ),
    ]


def feed_rules(
    feed: Feed, balances: Sequence[Balance], raw: DataFrame, accounted: DataFrame, dispositions: DataFrame
) -> list[Rule]:
    """Rules for the run's records as a whole. `dispositions`: the run's rows of the feed's table."""
    records = sum(b.raw for b in balances)
    quarantined = sum(b.dispositions.get(change.QUARANTINED, 0) for b in balances)
    # As written in the feed file: 0.29 of 100 is 29, which floating point misses.
    allowed = int(Fraction(str(feed.quarantine_limit)) * records)
    wrong = [b.source for b in balances if b.lost or b.doubled]
    return [
        Rule(
            "conservation",
            "record",
            "Every record that was read has exactly one disposition. " + "; ".join(map(str, balances)) + ".",
            imbalance(raw, accounted, wrong),
            counted=sum(b.lost + b.doubled for b in balances),
            severity="critical",
        ),
        Rule(
            "quarantine_limit",
            "disposition",
            f"At most {allowed:,} of {records:,} records are quarantined (limit {feed.quarantine_limit:g}); "
            f"{quarantined:,} are.",
            dispositions.where(F.col("disposition") == change.QUARANTINED),
            shown=("table", "record", "reason", "detail"),
            counted=max(0, quarantined - allowed),
        ),
        Rule(
            "shapes_fit_contracts",
            "reason",
            "What the feed tells of its tables' columns fits the contracts that were published.",
            dispositions.where(F.col("reason") == change.INCOMPATIBLE_SHAPE),
            shown=("table", "record", "reason", "detail"),
        ),
        Rule(
            "no_unpaired_images",
            "reason",
            "No before row is left without its after row.",
            dispositions.where(F.col("reason") == change.BEFORE_WITHOUT_AFTER),
            shown=("table", "record", "reason", "detail"),
            # Such a record is in quarantine with its reason: the rest of the run is not held back by it.
            severity="warning",
        ),
    ]


def duplicates_leave_one(dispositions: DataFrame, ledger: DataFrame) -> Rule:
    """`dispositions`: the run's of one table; `ledger`: all that its branch has, of every run.

    A duplicate names the change that it repeats. A row of one half of an update does so by its place, which
    is that of the first such row.
    """
    place = [F.col("record.source").alias("source"), F.col("record.row").alias("row")]
    is_duplicate = F.coalesce(F.col("reason") == change.DELIVERED_AGAIN, F.lit(False))
    is_half = is_duplicate & F.col("detail").isNull()
    named = dispositions.where(is_duplicate & ~is_half).withColumn("change_id", F.col("detail"))
    ids = named.select("change_id").distinct()
    # Inner joins, because Spark can then hash the small side.
    joined = ledger.select(F.col("paired_change_id").alias("change_id"))
    left = ledger.select("change_id").join(ids, "change_id", "inner")
    left = left.unionByName(joined.join(ids, "change_id", "inner"))
    gone = named.join(left, "change_id", "left_anti")
    halves = dispositions.where(is_half).select("*", *place)
    at = halves.select("source", "row").distinct()
    records = [ledger.select(F.col(name).alias("record")) for name in ("record", "paired_record")]
    records.append(dispositions.where(~is_half).select("record"))
    there = [rows.select(*place).join(at, ["source", "row"], "inner") for rows in records]
    without = halves.join(reduce(DataFrame.unionByName, there), ["source", "row"], "left_anti")
    shown = ("record", "reason", "detail")
    return Rule(
        "duplicates_leave_one",
        "record",
        "Of records that repeat one another one is a change: of this run, or published before.",
        gone.select(*shown).unionByName(without.select(*shown)),
        shown=shown,
        severity="critical",
    )


def _source() -> Column:
    return F.coalesce(F.col("record.source"), F.lit("(no source)"))


def _sums(raw: DataFrame, accounted: DataFrame) -> DataFrame:
    both = raw.unionByName(accounted.select("record", "disposition"))
    # 64-bit hashes would overflow a sum: halves of 32 bits do not, for two thousand million records.
    hashed = both.select(
        _source().alias("source"), F.coalesce("disposition", F.lit("(none)")).alias("disposition"),
        F.xxhash64("record").alias("hash"),
    )  # fmt: skip
    return hashed.groupBy("source", "disposition").agg(
        F.count(F.lit(1)).alias("n"),
        F.sum(F.col("hash").bitwiseAND(F.lit(0xFFFFFFFF))).alias("low"),
        F.sum(F.shiftrightunsigned("hash", 32)).alias("high"),
    )


def _even(sides: dict[str, tuple[int, int, int]]) -> bool:
    said = [numbers for name, numbers in sides.items() if name]
    return sides.get("", (0, 0, 0)) == tuple(sum(n[at] for n in said) for at in range(3))


def _faults(raw: DataFrame, accounted: DataFrame, sources: Sequence[str]) -> dict[str, Row]:
    short = F.col("read") - F.col("accounted")
    per_source = (
        imbalance(raw, accounted, sources)
        .groupBy(_source().alias("source"))
        .agg(
            F.sum(F.greatest(short, F.lit(0))).alias("lost"),
            F.sum(F.greatest(-short, F.lit(0))).alias("doubled"),
        )
    )
    return {row["source"]: row for row in per_source.collect()}
