"""One table of two feeds: its effects matched, judged and counted, and what is wrong kept in the lake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from threading import Lock

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger.databases import Counted, Database
from changeledger.plans import RowCache, at_hand
from changeledger.reconcile import compare, findings, positions
from changeledger.reconcile.compare import Columns, Side
from changeledger.reconcile.first_look import first_look
from changeledger.reconcile.positions import Positions
from changeledger.reconcile.second_look import second_look
from changeledger.reconcile.tally import Span, Tally, counted, counted_alike, tally, tally_alike
from changeledger.stages.compare_ranges import FeedRange, Reach, Translation, captured
from changeledger.stages.run import NAMESPACE, log
from changeledger.storage import lake
from changeledger.storage.control import ComparisonRow, ControlStore

FINDINGS = f"lake.{NAMESPACE}.findings"

AGREE, WARN, DIFFER = "agree", "warn", "differ"

# So many places are sent to all that read the ledgers again, instead of these to them.
_BROADCAST = 100_000


@dataclass(frozen=True)
class Pair:
    """The reference and the feed that is compared with it."""

    spark: SparkSession
    control: ControlStore
    database: Database
    one: FeedRange
    other: FeedRange
    # From the beginning, whatever was compared before.
    again: bool
    # One writer at a time of the findings, which all tables share.
    writing: Lock


@dataclass(frozen=True)
class Method:
    """How the changes of two feeds meet: the part of the log, and what their positions are."""

    reach: Reach
    # None where one of the feeds has no LSNs.
    positions: Positions | None = None
    # Of the feed whose positions are change LSNs.
    translation: Translation | None = None

    @property
    def by_position(self) -> bool:
        return self.positions is not None and self.is_ordered

    @property
    def is_ordered(self) -> bool:
        """Does each feed's order say something about the other's?"""
        return self.positions is None or self.positions.lsn != positions.UNKNOWN


class TablePair:
    """One table of the two."""

    def __init__(self, pair: Pair, table: str, method: Method) -> None:
        self._pair, self.table, self._method = pair, table, method
        self.one, self.other = self._side(pair.one), self._side(pair.other)

    def _side(self, one: FeedRange) -> Side:
        contract = self._pair.control.contract(one.feed.feed, self.table)
        assert contract is not None, "its ledger is published"
        table, reach, translation = self.table.lower(), self._method.reach, self._method.translation
        ledger = captured(self._pair.spark, one.ledgers[table])
        if translation is not None and translation.known is not one:
            ledger = translation.changes(ledger, table, reach)
        else:
            ledger = ledger.where(reach.holds())
        return Side(ledger, contract, table in one.moving)

    def compared(self, span: Span) -> ComparisonRow:
        pair, method = self._pair, self._method
        columns = Columns.of(self.one.contract, self.other.contract)
        from_lsn, to_lsn = (
            None if end is None else end.hex().upper() for end in (method.reach.since, method.reach.until)
        )
        reference, feed = pair.one.feed.feed, pair.other.feed.feed
        comparison_id = f"{reference}.{feed}.{self.table}.{from_lsn}.{to_lsn}"
        named = {
            "database": pair.database.database,
            "table": self.table,
            "reference": reference,
            "feed": feed,
        }
        log.info("%s: %s: from LSN %s to %s", feed, self.table, from_lsn or "the first", to_lsn or "the last")
        with at_hand() as keep:
            faulty, result = self._matched(columns, span, keep)
            if faulty is not None:
                looked = keep(self._looked(faulty, columns))
                result = _looked_again(result, looked, columns)
                rest = looked.where(F.col("verdict").isin(*compare.FAULTS))
                self._keep(findings.detailed(rest, self.one, self.other, columns), comparison_id, named)
            elif pair.again:
                self._keep(pair.spark.table(FINDINGS).limit(0), comparison_id, named)
        row = ComparisonRow(
            id=comparison_id,
            **named,
            from_lsn=from_lsn,
            to_lsn=to_lsn,
            from_time=span.since,
            to_time=span.until,
            outcome=_outcome(pair.database, result),
            counts=result.counts,
            columns=result.columns,
            spans=[list(span) for span in result.spans],
            positions=None if method.positions is None else method.positions.as_json(reference, feed),
            at=datetime.now(UTC),
        )
        pair.control.save_comparison(row)
        log.info("%s: %s: %s, %d equal", feed, self.table, row.outcome, result.counts[compare.EQUAL])
        return row

    def _matched(self, columns: Columns, span: Span, keep: RowCache) -> tuple[DataFrame | None, Tally]:
        """The effects with a fault, kept at hand, where there are any; and what all of them count."""
        one, other = self.one, self.other
        if not self._method.by_position:
            return _faulty(compare.matched(one, other, columns, by_position=False), columns, span, keep)
        looked, seen = counted_alike(first_look(one, other, columns), span)
        rest, left = keep.counted(looked.where(~F.col("alike")).select(*compare.PLACE))
        alike = tally_alike(seen.get)
        feed = self._pair.other.feed.feed
        log.info("%s: %s: %d alike; %d places to match", feed, self.table, alike.counts[compare.EQUAL], left)
        if not left:
            return None, alike
        within = F.broadcast(rest) if left <= _BROADCAST else rest
        found = compare.matched(one, other, columns, True, within)
        faulty, result = _faulty(found, columns, span, keep)
        return faulty, alike.plus(result)

    def _looked(self, faulty: DataFrame, columns: Columns) -> DataFrame:
        method = self._method
        looked = second_look(faulty, columns, method.is_ordered)
        one_alone = F.col("verdict").isin(compare.MISSING, compare.EXTRA)
        time = F.coalesce(F.col("reference")["committed_at"], F.col("other")["committed_at"])
        return looked.where(~one_alone | method.reach.is_in_both(time))

    def _keep(self, found: DataFrame, comparison_id: str, named: Mapping[str, str]) -> None:
        """The findings in the lake, in place of those of the same comparison before."""
        of_all = {"comparison_id": comparison_id, **named}
        with self._pair.writing:
            lake.replace_named(found, FINDINGS, findings.FINDING_COLUMNS, "comparison_id", of_all)


def worst(outcomes: Iterable[str]) -> str:
    """The gravest of the outcomes; AGREE where there are none."""
    return max(outcomes, key=(AGREE, WARN, DIFFER).index, default=AGREE)


def _outcome(database: Database, result: Tally) -> str:
    def too_many(limits: Mapping[Counted, int]) -> bool:
        return any(result.counts[verdict] > most for verdict, most in limits.items())

    tolerance = database.compare
    return DIFFER if too_many(tolerance.fail_above) else WARN if too_many(tolerance.warn_above) else AGREE


def _faulty(
    matched: DataFrame, columns: Columns, span: Span, keep: RowCache
) -> tuple[DataFrame | None, Tally]:
    told, seen = counted(matched, columns, span)
    faulty, number = keep.counted(told.where(F.col("verdict").isin(*compare.FAULTS)))
    return faulty if number else None, tally(seen.get, columns)


def _looked_again(result: Tally, looked: DataFrame, columns: Columns) -> Tally:
    """The counts with what a second look has made of the faults."""
    counts = {**result.counts, **dict.fromkeys(compare.FAULTS, 0)}
    by_column = {name: dict(counted) for name, counted in result.columns.items()}
    for row in looked.groupBy("verdict", "class", "columns").count().collect():
        for name in filter(None, (row["verdict"], row["class"])):
            counts[name] += row["count"]
        for number in row["columns"] or () if row["verdict"] == compare.DIFFERS else ():
            of_column = by_column.setdefault(columns.names[number] if number >= 0 else compare.OPERATION, {})
            of_column[compare.DIFFERS] = of_column.get(compare.DIFFERS, 0) + row["count"]
    return result._replace(counts=counts, columns=by_column)


def spans(tables: Sequence[TablePair]) -> dict[str, Span]:
    """The first and the last commit time of what is compared, by table."""
    micros, now = F.unix_micros("committed_at"), datetime.now(UTC)
    each = [
        pair.one.changes.select("committed_at")
        .unionByName(pair.other.changes.select("committed_at"))
        .agg(F.lit(pair.table).alias("table"), F.min(micros).alias("first"), F.max(micros).alias("last"))
        for pair in tables
    ]
    rows = reduce(DataFrame.unionByName, each).collect() if each else []
    return {
        row["table"]: Span(now, now)
        if row["first"] is None
        else Span(*(datetime.fromtimestamp(row[n] / 1e6, UTC) for n in ("first", "last")))
        for row in rows
    }
