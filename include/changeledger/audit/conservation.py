"""Conservation: every raw record of the run has exactly one disposition, per topic or capture table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from changeledger import change
from changeledger.audit.rules import Rule
from changeledger.config import Feed


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
