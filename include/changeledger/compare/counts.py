"""What a comparison counts: verdicts, classes, columns, and how the feeds agree over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from changeledger.compare.reach import micros_of
from changeledger.compare.verdicts import CLASSES, DIFFERS, OPERATION, VERDICTS
from changeledger.kernels.arrow import Bools, column, valid

# The number of equal parts of the compared time, for a chart of the agreement.
SPANS: Final = 24

# Rows of counts. `what`: a verdict or a class (`number` is -1), or one of the words below, with the number of
# a column or a span. The counts of buckets are added up.
SCHEMA: Final = pa.schema([("what", pa.string()), ("number", pa.int64()), ("rows", pa.int64())])
# What is counted per column.
REPRESENTED, NOT_CAPTURED_IN, DIFFERS_IN = "in representation", "in not_captured", "in differs"
_OF_COLUMNS: Final = {REPRESENTED: "representation", NOT_CAPTURED_IN: "not_captured", DIFFERS_IN: DIFFERS}
# What is counted per span.
AGREEING_IN, ALL_IN = "agreeing in", "all in"
# Effects that must be compared again.
UNLIKE: Final = "unlike"
# Rows by `what` and `number`.
Totals = Counter[tuple[str, int]]


class Counts(NamedTuple):
    """`counts` by verdict and class; `columns` by name; `spans`: (agreeing, all) effects of each."""

    counts: dict[str, int]
    columns: dict[str, dict[str, int]]
    spans: list[tuple[int, int]]


@dataclass(frozen=True)
class Span:
    """The compared time."""

    since: datetime
    until: datetime

    def numbers(self, times: pa.TimestampArray) -> npt.NDArray[np.int64]:
        """Returns the number of the span, of `SPANS`, in which each time is; -1 for NULL."""
        width = max((self.until - self.since).total_seconds(), 0.001) / SPANS
        micros = micros_of(times).fill_null(0).to_numpy()
        seconds = (micros - int(self.since.timestamp() * 1e6)) / 1e6
        inside = np.clip(np.floor(seconds / width), 0, SPANS - 1).astype(np.int64)
        return np.where(valid(times), inside, -1)


def table(totals: Mapping[tuple[str, int], int]) -> pa.Table:
    """Converts totals to rows of `SCHEMA`."""
    keys = [key for key, rows in totals.items() if rows]
    columns = [[w for w, _ in keys], [n for _, n in keys], [int(totals[key]) for key in keys]]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def in_spans(what: str, numbers: npt.NDArray[np.int64], rows: Bools) -> dict[tuple[str, int], int]:
    row_counts = np.bincount(numbers[rows & (numbers >= 0)], minlength=SPANS)
    return {(what, at): int(n) for at, n in enumerate(row_counts)}


def added(tables: Sequence[pa.Table]) -> Totals:
    """Sums the counts of buckets."""
    totals = Totals()
    for rows in tables:
        for what, number, n in zip(*(column(rows, name).to_pylist() for name in SCHEMA.names), strict=True):
            totals[what, number] += n
    return totals


def counts(totals: Mapping[tuple[str, int], int], names: Sequence[str]) -> Counts:
    """Converts totals to `Counts`. `names`: the names of the columns."""
    columns: dict[str, dict[str, int]] = {}
    for at, name in ((-1, OPERATION), *enumerate(names)):
        of_column = {word: totals[what, at] for what, word in _OF_COLUMNS.items() if totals.get((what, at))}
        if of_column:
            columns[name] = of_column
    return Counts(
        {name: totals.get((name, -1), 0) for name in (*VERDICTS, *CLASSES)},
        columns,
        [(totals.get((AGREEING_IN, at), 0), totals.get((ALL_IN, at), 0)) for at in range(SPANS)],
    )


def of_words(words: Sequence[str], codes: npt.NDArray[Any]) -> dict[tuple[str, int], int]:
    """Counts the codes of each word. A code is an index into `words`; below 0 it means none."""
    occurrences = np.bincount(codes[codes >= 0], minlength=len(words))
    return {(word, -1): int(n) for word, n in zip(words, occurrences, strict=True)}
