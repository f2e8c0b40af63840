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


def counted(
    matched: DataFrame, columns: Columns, since: datetime, until: datetime
) -> tuple[DataFrame, Observation]:
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
    width = max((until - since).total_seconds(), 0.001) / SPANS
    time = F.coalesce(F.col("reference")["committed_at"], F.col("other")["committed_at"])
    seconds = (F.unix_micros(time) - F.lit(int(since.timestamp() * 1e6))) / 1e6
    span = F.least(F.greatest(F.floor(seconds / width), F.lit(0)), F.lit(SPANS - 1))
    agrees = verdict.isin(*_AGREEING)
    for number in range(SPANS):
        aggregates += [
            F.count_if((span == number) & agrees).alias(f"agreeing {number}"),
            F.count_if(span == number).alias(f"all {number}"),
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
