"""SQL Server's own CDC tables, `cdc.<capture_instance>_CT`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.interface import DecisiveSetting, SourceDatabase, TableDialect, TableReader
from changeledger.dialects.sqlserver_cdc import header
from changeledger.dialects.sqlserver_cdc.clock import FallBack, comes_twice, fall_back, repeated_hours
from changeledger.dialects.sqlserver_cdc.decode import decode
from changeledger.dialects.sqlserver_cdc.header import COMMIT_FOLD, COMMIT_TIME, START_LSN, lsn_bytes
from changeledger.dialects.tables import instants
from changeledger.dialects.tables.interface import TableKernel
from changeledger.dialects.tables.rows import RawRows

Cells = Mapping[str, str | None]


def with_folds(rows: Sequence[Cells], feed: Feed) -> Sequence[Cells]:
    """Adds to rows the pass of a repeated hour in which they were committed. `rows` are those of all tables.

    The order of their commits shows the pass. Rows that already state it stay as they are.
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
    """Returns LSN and local time of the rows that have both, by row number."""
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


def reader(feed: Feed, database: SourceDatabase) -> TableReader:
    # Imports SQLAlchemy, which takes long, and decoding rows needs no database.
    from changeledger.dialects.sqlserver_cdc.reader import CaptureTables  # noqa: PLC0415

    return CaptureTables(feed, database)


def source_table(name: str) -> str:
    """Returns `dbo.orders` for `cdc.dbo_orders_CT`: by default a capture instance is named after its table.

    So are the functions that read it, such as `cdc.fn_cdc_get_all_changes_dbo_orders`. Names may be in
    brackets.
    """
    of_cdc = r"(?i)^(cdc\.)?(fn_cdc_get_(all|net)_changes_)?|_ct$"
    instance = re.sub(of_cdc, "", re.sub(r"[\[\]]", "", name))
    return instance if "." in instance else instance.replace("_", ".", 1)


def header_names(names: Sequence[str], _feed: Feed, stated: Collection[str]) -> frozenset[str]:
    """Returns the names that begin with `__$`, except source columns that the feed states."""
    of_source = {name.lower() for name in stated}
    return frozenset({name.lower() for name in names if name.startswith("__$")} - of_source)


SQLSERVER_CDC = TableDialect(
    TableKernel("sqlserver_cdc", header.record, decode, header.mask_rules),
    reader,
    source_table,
    header_names,
    with_folds,
    knows_computed=True,
    # Commit times are local; the zone converts them to UTC.
    decisive=DecisiveSetting("time_zone", lambda feed: feed.time_zone),
)
