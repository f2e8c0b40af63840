"""What a reader asks the source beside the rows, from rows that are all there is of the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.sqlserver_cdc.clock import FallBack, comes_twice, fall_back, repeated_hours
from changeledger.dialects.sqlserver_cdc.header import COMMIT_FOLD, COMMIT_TIME, START_LSN, lsn_bytes
from changeledger.dialects.tables import instants
from changeledger.dialects.tables.rows import RawRows

Cells = Mapping[str, str | None]


def with_folds(rows: Sequence[Cells], feed: Feed) -> Sequence[Cells]:
    """The rows of all tables, each with the pass of an hour that the server's clock has shown twice.

    The order of their commits shows it. Rows that say it themselves stay as they are.
    """
    zone = feed.time_zone
    if zone == "UTC":
        return rows
    commits = _commits(rows)
    known: list[FallBack] = []
    for _, local in commits.values():
        if comes_twice(local, zone) and not any(transition.hour.has(local) for transition in known):
            hours = repeated_hours(zone, local, local)
            known += [fall_back(hour, commits.values(), marked=False) for hour in hours]
    if not known:
        return rows
    return [
        {COMMIT_FOLD: _fold(*commits[n], known), **cells} if n in commits else cells
        for n, cells in enumerate(rows)
    ]


def _fold(lsn: bytes, local: datetime, known: Sequence[FallBack]) -> str | None:
    fold = next((transition.of(lsn) for transition in known if transition.hour.has(local)), None)
    return None if fold is None else str(fold)


def _commits(rows: Sequence[Cells]) -> dict[int, tuple[bytes, datetime]]:
    """LSN and local time of the rows that have both, by their place."""
    lower = [{name.lower(): cell for name, cell in cells.items()} for cells in rows]
    texts = {
        name: pa.array([None if COMMIT_FOLD in cells else cells.get(name) for cells in lower], pa.string())
        for name in (START_LSN, COMMIT_TIME)
    }
    read = RawRows.of(pa.RecordBatch.from_pydict(texts))
    lsns = lsn_bytes(read, START_LSN).to_pylist()
    (time,) = read.read(COMMIT_TIME)
    local = instants.known(*instants.read(time, in_zone=False)).to_pylist()
    return {
        n: (lsn, at.replace(tzinfo=None))
        for n, (lsn, at) in enumerate(zip(lsns, local, strict=True))
        if lsn is not None and at is not None
    }
