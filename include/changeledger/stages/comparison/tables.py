"""Compares one table of two feeds and records the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from changeledger.compare.columns import not_compared
from changeledger.compare.counts import Counts
from changeledger.compare.effects import OTHER, REFERENCE
from changeledger.compare.verdicts import EQUAL, NOT_COMPARED
from changeledger.config.database import Counted, Database
from changeledger.control import ComparisonRow, ControlStore
from changeledger.control.tables.results import AGREE, DIFFER, WARN
from changeledger.model.column_names import shown
from changeledger.stages.common.context import log
from changeledger.stages.comparison.findings import FindingsWriter
from changeledger.stages.comparison.matching import Matching, Method, Side
from changeledger.stages.comparison.ranges import FeedRange


@dataclass(frozen=True)
class Pair:
    """The reference feed and the feed that is compared with it."""

    control: ControlStore
    database: Database
    reference: FeedRange
    other: FeedRange
    # Compare from the beginning, whatever was compared before.
    full: bool


@dataclass(frozen=True)
class TablePair:
    """One table of both feeds."""

    pair: Pair
    table: str
    method: Method

    def compared(self, writer: FindingsWriter) -> ComparisonRow:
        """Compares the table; hands the result and its findings to `writer`."""
        pair, reach = self.pair, self.method.reach
        from_lsn, to_lsn = (None if end is None else end.hex().upper() for end in (reach.since, reach.until))
        reference, feed = pair.reference.feed.feed, pair.other.feed.feed
        named = {
            "database": pair.database.database,
            "table": self.table,
            "reference": reference,
            "feed": feed,
        }
        log.info("%s: %s: from LSN %s to %s", feed, self.table, from_lsn or "the first", to_lsn or "the last")
        matching = self._matching()
        contracts = [of_feed.contracts[self.table.lower()] for of_feed in (pair.reference, pair.other)]
        left_out = not_compared(contracts[REFERENCE], contracts[OTHER], (reference, feed))
        for column, why in left_out.items():
            log.warning("%s: %s: %s is not compared: %s", feed, self.table, shown([column]), why)
        result, faulty = matching.counted()
        row = ComparisonRow(
            id=f"{reference}.{feed}.{self.table}.{from_lsn}.{to_lsn}",
            **named,
            from_lsn=from_lsn,
            to_lsn=to_lsn,
            from_time=matching.span.since,
            to_time=matching.span.until,
            outcome=_outcome(pair.database, result),
            counts=result.counts,
            columns=result.columns | {name: {NOT_COMPARED: why} for name, why in left_out.items()},
            spans=[list(span) for span in result.spans],
            positions=None if self.method.positions is None
            else self.method.positions.as_json(reference, feed),
            at=datetime.now(UTC),
        )  # fmt: skip
        wrong = None if faulty is None else matching.explained(faulty, {"comparison_id": row.id, **named})
        writer.add(row, wrong)
        log.info("%s: %s: %s, %d equal", feed, self.table, row.outcome, result.counts[EQUAL])
        return row

    def _matching(self) -> Matching:
        pair, method, table = self.pair, self.method, self.table.lower()
        sides = []
        for number, of_feed in enumerate((pair.reference, pair.other)):
            translation = None
            if method.translation is not None and method.translation.known is not of_feed:
                translation = (method.translation, method.translation.known.ledgers[table])
            ledger, contract = of_feed.ledgers[table], of_feed.contracts[table].published
            sides.append(Side(number, ledger, contract, method.reach, translation))
        return Matching.of(sides[REFERENCE], sides[OTHER], method, f"{pair.other.feed.feed}: {self.table}")


def _outcome(database: Database, result: Counts) -> str:
    def too_many(limits: Mapping[Counted, int]) -> bool:
        return any(result.counts[verdict] > most for verdict, most in limits.items())

    tolerance = database.compare
    return DIFFER if too_many(tolerance.fail_above) else WARN if too_many(tolerance.warn_above) else AGREE
