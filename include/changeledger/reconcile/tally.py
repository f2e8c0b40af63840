"""Counting what a comparison found, in the same pass that compares."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from changeledger.reconcile.compare import (
    CLASSES,
    EQUAL,
    LEGITIMATE,
    NOT_SENT,
    REPRESENTATION,
    VERDICTS,
    Columns,
)

# Equal parts of the time compared, for a picture of the agreement.
SPANS = 24
_AGREEING = (EQUAL, LEGITIMATE, REPRESENTATION)


class Tally(NamedTuple):
    """`counts` by verdict and class; `columns` by name; `spans`: (agreeing, all) effects of each."""

    counts: dict[str, int]
    columns: dict[str, dict[str, int]]
    spans: list[tuple[int, int]]

    def plus(self, other: Tally) -> Tally:
        """What two looks at different places found; only one of them knows columns."""
        return Tally(
            {name: count + other.counts[name] for name, count in self.counts.items()},
            self.columns or other.columns,
            [(a + c, b + d) for (a, b), (c, d) in zip(self.spans, other.spans, strict=True)],
        )


class Span(NamedTuple):
    """The time that is compared."""

    since: datetime
    until: datetime

    def number(self, time: Column) -> Column:
        """bigint: in which of the `SPANS` a time is."""
        width = max((self.until - self.since).total_seconds(), 0.001) / SPANS
        seconds = (F.unix_micros(time) - F.lit(int(self.since.timestamp() * 1e6))) / 1e6
        return F.least(F.greatest(F.floor(seconds / width), F.lit(0)), F.lit(SPANS - 1))


def counted_alike(looked: DataFrame, span: Span) -> tuple[DataFrame, Observation]:
    """Rows of `first_look`; those that are alike are counted as they pass."""
    seen = Observation()
    number = F.when(F.col("alike"), span.number(F.col("committed_at")))
    in_spans = [F.count_if(number == at).alias(str(at)) for at in range(SPANS)]
    return looked.observe(seen, *in_spans), seen


def tally_alike(seen: Mapping[str, Any]) -> Tally:
    """What an observation of `counted_alike` holds."""
    spans = [(seen[str(at)], seen[str(at)]) for at in range(SPANS)]
    counts = dict.fromkeys((*VERDICTS, *CLASSES), 0)
    return Tally({**counts, EQUAL: sum(one for one, _ in spans)}, {}, spans)


def counted(matched: DataFrame, columns: Columns, span: Span) -> tuple[DataFrame, Observation]:
    """`matched`, whose rows are counted as they pass."""
    seen = Observation()
    verdict = F.col("verdict")
    aggregates: list[Column] = [F.count_if(verdict == v).alias(v) for v in VERDICTS]
    aggregates += [F.count_if(F.col("class") == c).alias(c) for c in CLASSES]
    for number in range(len(columns.names)):
        loose = (verdict == REPRESENTATION) & F.array_contains("columns", number)
        unsent = (F.col("class") == NOT_SENT) & F.expr(_known_to_one(number))
        aggregates += [
            F.count_if(loose).alias(f"representation {number}"),
            F.count_if(unsent).alias(f"not_sent {number}"),
        ]
    at = span.number(F.coalesce(F.col("reference")["committed_at"], F.col("other")["committed_at"]))
    agrees = verdict.isin(*_AGREEING)
    for number in range(SPANS):
        aggregates += [
            F.count_if((at == number) & agrees).alias(f"agreeing {number}"),
            F.count_if(at == number).alias(f"all {number}"),
        ]
    return matched.observe(seen, *aggregates), seen


def _known_to_one(number: int) -> str:
    """SQL text: is the cell of that column known on one side alone?"""
    sides = (
        f"((get(reference.{side}, {number}) IS NULL) != (get(other.{side}, {number}) IS NULL))"
        for side in ("before", "after")
    )
    return f"coalesce({' OR '.join(sides)}, false)"


def tally(seen: Mapping[str, Any], columns: Columns) -> Tally:
    """What an observation of `counted` holds."""
    by_column = {
        name: {
            what: seen[f"{what} {number}"]
            for what in ("representation", "not_sent")
            if seen[f"{what} {number}"]
        }
        for number, name in enumerate(columns.names)
    }
    return Tally(
        {name: seen[name] for name in (*VERDICTS, *CLASSES)},
        {name: told for name, told in by_column.items() if told},
        [(seen[f"agreeing {n}"], seen[f"all {n}"]) for n in range(SPANS)],
    )
