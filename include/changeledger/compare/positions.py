"""Determines which LSNs the positions of a feed are.

A change has two LSNs: its own, and that of its commit. Some tools write one position and do not say which of
the two it is. A feed that has both shows it: the other feed's positions equal its commit LSNs, or its change
LSNs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.compare.cells import hashed
from changeledger.kernels.arrow import Bools, column, flags_of, numbers
from changeledger.kernels.hashed import by

COMMIT: Final = "commit"
CHANGE: Final = "change"
# The positions equal neither: the two feeds have no common order.
UNKNOWN: Final = "unknown"

# How many positions are read. Of more, both feeds read the same part.
ENOUGH: Final = 200_000
# The share of positions that must be equal: much less than feeds that lost changes have in common, and much
# more than chance gives.
_MOST: Final = 0.5

# Bits for the kinds of LSN as which a position occurs.
_FIRST_COMMIT, _FIRST_CHANGE, _SECOND_COMMIT, _SECOND_CHANGE = 1, 2, 4, 8

LsnRange = tuple[bytes | None, bytes | None]


class Positions(NamedTuple):
    """Which LSNs a feed's positions are in the other feed: COMMIT, CHANGE or UNKNOWN.

    `of_other`: the positions are the other feed's, and the LSNs the reference's; if not, the reverse. `equal`
    of `positions` are equal.
    """

    lsn: str
    of_other: bool
    equal: int
    positions: int

    def as_json(self, reference: str, other: str) -> dict[str, Any]:
        """Returns a record for people and programs: the positions of `feed` are the `lsn` LSNs of `of`."""
        feed, of = (other, reference) if self.of_other else (reference, other)
        return {"feed": feed, "lsn": self.lsn, "of": of, "equal": self.equal, "positions": self.positions}


def said(record: Mapping[str, Any]) -> str:
    """Formats `Positions.as_json` as a sentence."""
    shown = f"{record['equal']:,} of {record['positions']:,}"
    if record["lsn"] == UNKNOWN:
        return (
            f"the positions of {record['feed']} are neither the commit LSNs nor the change LSNs of "
            f"{record['of']} ({shown} at most are equal): changes are matched by key and images within the "
            "commit times that both feeds have, and their order is unknown"
        )
    return f"the positions of {record['feed']} are {record['lsn']} LSNs of {record['of']} ({shown} are equal)"


_READINGS: Final = (
    (Positions(COMMIT, True, 0, 0), _FIRST_COMMIT, _SECOND_COMMIT),
    (Positions(CHANGE, True, 0, 0), _FIRST_CHANGE, _SECOND_COMMIT),
    (Positions(CHANGE, False, 0, 0), _FIRST_COMMIT, _SECOND_CHANGE),
)
_COUNTED: Final = ("first", "second", "both")
# Numbers of positions by reading: in the first feed, the second, and both. Counts of buckets are added up.
COUNTS: Final = pa.schema([(f"{name} {at}", pa.int64()) for at in range(len(_READINGS)) for name in _COUNTED])

LSNS: Final = pa.schema([("lsn", pa.binary()), ("kind", pa.int32())])
# Equal LSNs must share a bucket.
KEY: Final = by("lsn")
FIRST: Final = "first"
SECOND: Final = "second"


def as_lsns(batch: pa.RecordBatch, part: str, parts: int) -> pa.RecordBatch:
    """Converts both LSNs of `log.LOG` rows to `LSNS`. Keeps one of `parts` parts, the same in both feeds."""
    kinds = (_FIRST_COMMIT, _FIRST_CHANGE) if part == FIRST else (_SECOND_COMMIT, _SECOND_CHANGE)
    columns = [pc.unique(batch.column(name)).drop_null() for name in ("position", "change_lsn")]
    lsns = pa.concat_arrays(columns)
    kind = np.repeat(np.array(kinds, np.int32), [len(values) for values in columns])
    rows = pa.RecordBatch.from_arrays([lsns, pa.array(kind)], schema=LSNS)
    return rows if parts == 1 else rows.filter(pa.array(hashed([lsns], len(lsns)) % parts == 0))


def count(tables: Mapping[str, pa.Table], ranges: Sequence[LsnRange]) -> Mapping[str, pa.Table]:
    """Returns one row of `COUNTS`. `ranges`: the ends of both feeds' commit LSNs and change LSNs."""
    rows = pa.concat_tables([tables[FIRST], tables[SECOND]])
    encoded = column(rows, "lsn").dictionary_encode()
    kinds: npt.NDArray[np.int32] = np.zeros(len(encoded.dictionary), np.int32)
    np.bitwise_or.at(kinds, numbers(encoded.indices), column(rows, "kind").to_numpy())
    totals = {}
    by_kind = dict(zip((_FIRST_COMMIT, _FIRST_CHANGE, _SECOND_COMMIT, _SECOND_CHANGE), ranges, strict=True))
    for at, (_, a, b) in enumerate(_READINGS):
        within = _in_both(encoded.dictionary, by_kind[a], by_kind[b])
        for name, wanted in zip(_COUNTED, (a, b, a | b), strict=True):
            totals[f"{name} {at}"] = int((((kinds & wanted) == wanted) & within).sum())
    return {"counts": pa.Table.from_pylist([totals], schema=COUNTS)}


def _in_both(lsns: pa.BinaryArray, lsn_range: LsnRange, other: LsnRange) -> Bools:
    firsts, lasts = ([end for end in ends if end is not None] for ends in zip(lsn_range, other, strict=True))
    if len(firsts) + len(lasts) < 4:
        return np.zeros(len(lsns), np.bool_)
    return flags_of(pc.and_(pc.greater_equal(lsns, max(firsts)), pc.less_equal(lsns, min(lasts))))


def in_common(counts: pa.Table) -> Positions:
    """Returns what the positions of two feeds have in common, in the part of the log that both have."""
    row = {name: sum(column(counts, name).to_pylist()) for name in COUNTS.names}
    readings = [
        reading._replace(equal=row[f"both {at}"], positions=min(row[f"first {at}"], row[f"second {at}"]))
        for at, (reading, *_) in enumerate(_READINGS)
    ]
    best = max(readings, key=lambda reading: reading.equal / max(reading.positions, 1))
    return best if best.equal and best.equal >= _MOST * best.positions else best._replace(lsn=UNKNOWN)
