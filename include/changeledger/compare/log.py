"""The part of the log that a feed has, by positions and commit times, without the contents of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.compare.reach import SLACK, Reach, micros_of, moment, within
from changeledger.kernels.arrow import (
    INSTANT,
    batch_of,
    by_name,
    column,
    flags_of,
    holding,
    numbers,
    with_column,
)
from changeledger.kernels.hashed import by
from changeledger.model import change

# The ledger columns from which rows of `LOG` are made, and `LOG`.
NEEDED: Final = ("operation", "commit_lsn", "change_lsn", "committed_at")
LOG: Final = pa.schema(
    [
        # Where the change is compared (see `place`), and its commit LSN as the ledger has it.
        ("place", pa.binary()),
        ("position", pa.binary()),
        ("is_placed", pa.bool_()),
        ("change_lsn", pa.binary()),
        ("committed_at", INSTANT),
        ("is_snapshot", pa.bool_()),
    ]
)


def as_log(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Converts ledger rows to `LOG`."""
    lsns, is_snapshot = batch.column("commit_lsn"), pc.equal(batch.column("operation"), change.SNAPSHOT)
    placed = {"place": lsns, "position": lsns, "is_placed": True, "is_snapshot": is_snapshot}
    return batch_of({**by_name(batch), **placed}, LOG)


class Extent(NamedTuple):
    """The extent of some rows. `since` and `until`: commit times in microseconds since 1970.

    `loaded`: the first position of a snapshot.
    """

    rows: int = 0
    first: bytes | None = None
    last: bytes | None = None
    loaded: bytes | None = None
    first_change: bytes | None = None
    last_change: bytes | None = None
    since: int | None = None
    until: int | None = None
    # Whether a change in the log has no LSN.
    unplaced: bool = False


EXTENT: Final = pa.schema(
    [
        ("rows", pa.int64()),
        *((name, pa.binary()) for name in ("first", "last", "loaded", "first_change", "last_change")),
        ("since", pa.int64()),
        ("until", pa.int64()),
        ("unplaced", pa.bool_()),
    ]
)


def extent(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns one row of `EXTENT` for rows of `LOG`."""
    is_snapshot = batch.column("is_snapshot")
    streamed, loaded = batch.filter(pc.invert(is_snapshot)), batch.filter(is_snapshot)
    first, _ = _ends(streamed.column("place"))
    _, last = _ends(batch.column("place"))
    since, until = _ends(micros_of(streamed.column("committed_at")))
    batch_extent = Extent(
        streamed.num_rows,
        first,
        last,
        _ends(loaded.column("place"))[0],
        *_ends(streamed.column("change_lsn")),
        since,
        until,
        streamed.column("place").null_count > 0,
    )
    return pa.RecordBatch.from_pylist([batch_extent._asdict()], schema=EXTENT)


def _ends(values: pa.Array) -> tuple[Any, Any]:
    first, last = pc.min_max(values).as_py().values()
    return first, last


def whole(extents: pa.Table) -> Extent:
    """Merges the extents of all batches."""
    values = {name: [v for v in column(extents, name).to_pylist() if v is not None] for name in EXTENT.names}
    least = {name: min(values[name], default=None) for name in ("first", "loaded", "first_change", "since")}
    most = {name: max(values[name], default=None) for name in ("last", "last_change", "until")}
    return Extent(rows=sum(values["rows"]), unplaced=any(values["unplaced"]), **least, **most)


# Inputs of `place`: rows with `place`, `position` and `is_placed`, and `LOG` of the feed that has both LSNs.
# Rows of ROWS and KNOWN must share a bucket if the `position` of one equals the `change_lsn` of the other.
ROWS: Final = "rows"
KNOWN: Final = "known"
KEY_OF_ROWS: Final = by("position")
KEY_OF_KNOWN: Final = by("change_lsn")


def place(tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
    """Places rows whose positions are change LSNs at the commit LSNs of these changes.

    Rows that the other feed lacks stay at their positions, and are not `is_placed`.
    """
    rows, known = tables[ROWS], tables[KNOWN]
    has_both = pc.and_(pc.is_valid(known.column("change_lsn")), pc.is_valid(known.column("place")))
    pairs = known.filter(pc.and_(has_both, pc.invert(known.column("is_snapshot"))))
    # The lowest commit LSN of each change LSN comes first.
    pairs = pairs.sort_by([("change_lsn", "ascending"), ("place", "ascending")])
    changes = column(pairs, "change_lsn").dictionary_encode()
    _, first = np.unique(numbers(changes.indices), return_index=True)
    commits = column(pairs, "place").take(pa.array(first))
    at = pc.index_in(column(rows, "position"), value_set=changes.dictionary, skip_nulls=True)
    commit_lsns = commits.take(at)
    placed = {"place": pc.coalesce(commit_lsns, column(rows, "place")), "is_placed": commit_lsns.is_valid()}
    for name, cells in placed.items():
        rows = with_column(rows, name, cells)
    return {ROWS: rows}


def in_reach(
    batch: pa.RecordBatch, reach: Reach, ends: tuple[datetime, datetime] | None = None
) -> pa.RecordBatch:
    """Selects the rows (with `place`, `is_placed` and `committed_at`) that are in reach.

    `ends`: the commit times at which the reach begins and ends. They decide for rows that are not placed.
    """
    times = batch.column("committed_at")
    inside = reach.holds(batch.column("place"), times)
    if ends is not None:
        since, until = (at - SLACK for at in ends)
        inside = np.where(flags_of(batch.column("is_placed")), inside, within(since, until, times))
    return batch.filter(pa.array(inside))


TIMES: Final = pa.schema([("since", pa.int64()), ("until", pa.int64())])


def times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns one row of `TIMES`: the first and the last commit time."""
    since, until = _ends(micros_of(batch.column("committed_at")))
    return batch_of({"since": [since], "until": [until]}, TIMES)


def first_times(batch: pa.RecordBatch, ends: Sequence[bytes]) -> pa.RecordBatch:
    """Returns one row: for each end, the first commit time of the rows from there on."""
    firsts = []
    for end in ends:
        behind = batch.filter(pc.greater_equal(batch.column("place"), end))
        firsts.append(_ends(micros_of(behind.column("committed_at")))[0])
    return pa.RecordBatch.from_arrays([pa.array([n], pa.int64()) for n in firsts], schema=TIMES)


def least(rows: pa.Table, name: str) -> datetime | None:
    return moment(min((v for v in column(rows, name).to_pylist() if v is not None), default=None))


def no_repairs(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Selects the ledger rows that the source sent, not those added by repairs."""
    return rows.filter(pa.array(~holding(rows.column("flags"), change.REPAIRED)))
