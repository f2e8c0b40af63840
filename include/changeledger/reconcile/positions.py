"""Which LSN do the positions of a feed hold?

A change has two LSNs: its own, and that of its commit. Some tools write one position and do not say which of
the two it is. A feed that has both shows it: the positions of the other feed equal
its commit LSNs, or its change LSNs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

COMMIT: Final = "commit"
CHANGE: Final = "change"
# The positions equal neither: the two feeds have no common order.
UNKNOWN: Final = "unknown"

# Positions that are looked at; of more, a part that both feeds choose alike.
_ENOUGH: Final = 200_000
# So large a part of the positions must be equal: much less than feeds that lost changes have in common, much
# more than chance gives.
_MOST: Final = 0.5

# The kinds of LSNs that a position occurs as, as bits.
_ONE_COMMIT, _ONE_CHANGE, _OTHER_COMMIT, _OTHER_CHANGE = 1, 2, 4, 8

LsnRange = tuple[bytes | None, bytes | None]


class Lsns(NamedTuple):
    """`commit_lsn` and `change_lsn` of a feed's changes of the log, and the first and last one of each."""

    changes: DataFrame
    rows: int
    commit: LsnRange
    change: LsnRange


class Positions(NamedTuple):
    """What the position of a feed is: COMMIT, CHANGE or UNKNOWN; `of_other`: of the other feed's changes.

    `equal` of `positions` show it.
    """

    lsn: str
    of_other: bool
    equal: int
    positions: int

    def as_json(self, one: str, other: str) -> dict[str, Any]:
        """For people and programs, with the names of the feeds: whose `positions` are which `lsn` of whom."""
        feed, of = (other, one) if self.of_other else (one, other)
        return {"feed": feed, "lsn": self.lsn, "of": of, "equal": self.equal, "positions": self.positions}


def said(found: Mapping[str, Any]) -> str:
    """`Positions.as_json` as a sentence."""
    shown = f"{found['equal']:,} of {found['positions']:,}"
    if found["lsn"] == UNKNOWN:
        return (
            f"the positions of {found['feed']} are neither the commit LSNs nor the change LSNs of "
            f"{found['of']} ({shown} at most are equal): changes are matched by key and images within the "
            "commit times that both feeds have, and their order is unknown"
        )
    return f"the positions of {found['feed']} are {found['lsn']} LSNs of {found['of']} ({shown} are equal)"


_READINGS: Final = (
    (Positions(COMMIT, True, 0, 0), _ONE_COMMIT, _OTHER_COMMIT),
    (Positions(CHANGE, True, 0, 0), _ONE_CHANGE, _OTHER_COMMIT),
    (Positions(CHANGE, False, 0, 0), _ONE_COMMIT, _OTHER_CHANGE),
)


def found(one: Lsns, other: Lsns) -> Positions:
    """What the positions of two feeds have in common, over the part of the log that both have."""
    row = _counted(one, other).collect()[0].asDict()
    readings = [
        reading._replace(equal=row[f"both {at}"], positions=min(row[f"one {at}"], row[f"other {at}"]))
        for at, (reading, *_) in enumerate(_READINGS)
    ]
    best = max(readings, key=lambda reading: reading.equal / max(reading.positions, 1))
    return best if best.equal and best.equal >= _MOST * best.positions else best._replace(lsn=UNKNOWN)


def _counted(one: Lsns, other: Lsns) -> DataFrame:
    """One row: for each of `_READINGS`, the positions of `one`, of the `other`, and of `both`."""
    rows = _as_rows(one.changes, _ONE_COMMIT, _ONE_CHANGE).unionByName(
        _as_rows(other.changes, _OTHER_COMMIT, _OTHER_CHANGE)
    )
    parts = max((one.rows + other.rows) // _ENOUGH, 1)
    if parts > 1:
        rows = rows.where(F.pmod(F.xxhash64("lsn"), F.lit(parts)) == 0)
    ranges = {
        _ONE_COMMIT: one.commit,
        _ONE_CHANGE: one.change,
        _OTHER_COMMIT: other.commit,
        _OTHER_CHANGE: other.change,
    }
    counts = []
    for at, (_, a, b) in enumerate(_READINGS):
        within = _in_both(ranges[a], ranges[b])
        for name, kinds in (("one", a), ("other", b), ("both", a | b)):
            has = F.col("kinds").bitwiseAND(F.lit(kinds)) == kinds
            counts.append(F.count_if(has & within).alias(f"{name} {at}"))
    return rows.groupBy("lsn").agg(F.bit_or("kind").alias("kinds")).agg(*counts)


def _as_rows(changes: DataFrame, commit: int, change: int) -> DataFrame:
    """`lsn` and `kind`: both LSNs of a change as rows."""
    kinds = [
        F.struct(F.col(name).alias("lsn"), F.lit(kind).alias("kind"))
        for name, kind in (("commit_lsn", commit), ("change_lsn", change))
    ]
    return changes.select(F.inline(F.array(*kinds))).where(F.col("lsn").isNotNull())


def _in_both(one: LsnRange, other: LsnRange) -> Column:
    first, last = (bound(filter(None, ends)) if all(ends) else None
                   for bound, ends in ((max, (one[0], other[0])), (min, (one[1], other[1]))))  # fmt: skip
    if first is None or last is None:
        return F.lit(False)
    return F.col("lsn").between(F.lit(first), F.lit(last))


def commits(changes: DataFrame) -> DataFrame:
    """`position` and `commit`: of each change LSN, that of its commit."""
    of_log = changes.where(F.col("change_lsn").isNotNull() & F.col("commit_lsn").isNotNull())
    return of_log.groupBy(F.col("change_lsn").alias("position")).agg(F.min("commit_lsn").alias("commit"))


def placed(changes: DataFrame, known: DataFrame) -> DataFrame:
    """Changes whose `commit_lsn` holds change LSNs, with the commit LSNs that `known` (`commits`) has.

    `is_placed`: it has one; else the change LSN stays.
    """
    joined = changes.join(known, changes["commit_lsn"] == known["position"], "left")
    return joined.withColumns(
        {"commit_lsn": F.coalesce("commit", "commit_lsn"), "is_placed": F.col("commit").isNotNull()}
    ).drop("position", "commit")
