"""Finds the tables of a window's messages, and how messages write their columns.

`facts` collects the ways in which the messages of a batch write their tables, `merged` combines those of all
batches, and `discover` derives from them what routes and decodes the window's messages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.config.sources import CesSource
from changeledger.dialects.ces import avro, envelope, event, typed
from changeledger.dialects.ces.columns import Variant, writer_schemas
from changeledger.dialects.ces.envelope import Tombstone
from changeledger.dialects.kernel import EarlierWindows
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.problems import Problem
from changeledger.kernels.json_text import UNREADABLE
from changeledger.model.contract import Contract
from changeledger.model.source_names import (
    DATABASE_MISMATCH,
    TABLES_ALIKE,
    database_meant,
    meant,
    not_meant,
    not_of_database,
)

# Stands in for a table's number: the message is a part of a split event (`split.joined`).
SEGMENT = -1
# `first` is the lowest position of the messages. `segments` counts the parts of split events, whose table is
# not known yet.
FACTS = pa.schema(
    [
        ("table", pa.string()),
        ("cols", pa.string()),
        ("key", pa.list_(pa.string())),
        ("first", pa.string()),
        ("segments", pa.int64()),
        ("database", pa.string()),
        ("events", pa.int64()),
    ]
)
_PLACE = re.compile(r":([0-9A-Fa-f]{20}:[0-9]+)\Z")


class Way(NamedTuple):
    """How a message writes its table: the name, the text of `cols`, the names in `pkkey`, the database."""

    table: str
    cols: str | None
    key: tuple[str, ...]
    database: str | None = None


class Written(NamedTuple):
    """The position of a way's first event, as comparable text, and how many events it has."""

    first: str | None = None
    events: int = 0

    def also(self, place: str | None, events: int) -> Written:
        return Written(_least((self.first, place)), self.events + events)


def _least(places: Iterable[str | None]) -> str | None:
    return min((place for place in places if place is not None), default=None)


class Routed(NamedTuple):
    """A message's table, and the members that have the event's position."""

    way: Way
    logicalid: str | None
    commitlsn: str | None

    @property
    def place(self) -> str | None:
        """The event's position as comparable text."""
        match = _PLACE.search(self.logicalid or "")
        place = match[1] if match else self.commitlsn and self.commitlsn.replace(":", "")
        return place and place.upper()


@dataclass(frozen=True)
class TableRecords:
    """The messages of one table that share one writer schema, and the ways in which they write it."""

    table: str
    source_table: str
    writer_schema: Contract
    ways: frozenset[Way]
    source_database: str | None = None


@dataclass(frozen=True)
class Discovery:
    """Every message of a window belongs to one of `tables`, is a segment, or is neither.

    `missing` says why messages of a table of the feed cannot be published.
    """

    tables: Sequence[TableRecords]
    missing: Mapping[Way, Outcome] = field(default_factory=dict)
    # Always empty: each message has its columns with it.
    new_writer_schemas: Mapping[str, Contract] = field(default_factory=dict)


def facts(raw: pa.RecordBatch, _avro_schemas: object) -> pa.RecordBatch:
    """Returns the ways in which the messages of a batch write their tables (`FACTS`)."""
    places: dict[Way, list[str | None]] = {}
    segments = 0
    for value in raw.column("value").to_pylist():
        routed = route(value)
        if routed is None:
            segments += 1
        elif isinstance(routed, Routed):
            places.setdefault(routed.way, []).append(routed.place)
    return _facts({way: Written(_least(of_way), len(of_way)) for way, of_way in places.items()}, segments)


def merged(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Combines the facts of all parts of a window. The result does not depend on how it was cut."""
    written: dict[Way, Written] = {}
    segments = 0
    for row in pa.Table.from_batches(parts, FACTS).to_pylist():
        segments += row["segments"]
        if row["table"] is not None:
            way = _way(row)
            written[way] = written.get(way, Written()).also(row["first"], row["events"])
    return _facts(written, segments)


def _facts(written: Mapping[Way, Written], segments: int) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = [
        {**way._asdict(), **of_way._asdict(), "segments": 0} for way, of_way in written.items()
    ]
    rows.sort(key=lambda r: (r["first"] or "", r["table"], r["cols"] or "", r["key"], r["database"] or ""))
    if segments:
        rows.append({"segments": segments})
    return pa.RecordBatch.from_pylist(rows, FACTS)


def _way(row: Mapping[str, Any]) -> Way:
    return Way(row["table"], row["cols"], tuple(row["key"]), row["database"])


def has_segments(window_facts: pa.RecordBatch) -> bool:
    return any(window_facts.column("segments").to_pylist())


def discover(window_facts: pa.RecordBatch, feed: Feed, known: EarlierWindows) -> Discovery:
    """Finds the tables and writer schemas of a window from its merged facts."""
    contracts = known.contracts
    of_feed = [row for row in window_facts.to_pylist() if feed.table(row["table"] or "")]
    ways_of_feed = [(_way(row), row["first"]) for row in of_feed]
    database = _database(feed, contracts, of_feed)
    missing = {way: why for way, _ in ways_of_feed if (why := _elsewhere(way, database)) is not None}
    tables_written: dict[str, dict[str, dict[Variant, list[Way]]]] = {}
    for way, first in ways_of_feed:
        config = feed.table(way.table)
        if config is not None and way not in missing:
            of_name = tables_written.setdefault(config.table, {}).setdefault(way.table, {})
            of_name.setdefault(Variant(first or "", way.cols, way.key), []).append(way)
    tables: list[TableRecords] = []
    for table, by_name in tables_written.items():
        contract, config = contracts.get(table), feed.table(table)
        assert config is not None, "looked up above"
        meant_table = meant(table, None if contract is None else contract.source_table, by_name)
        for name, variants in by_name.items():
            if name != meant_table:
                alike = Problem(TABLES_ALIKE, not_meant(name, table, meant_table)).outcome
                missing |= {way: alike for ways in variants.values() for way in ways}
                continue
            for schema in writer_schemas(config, variants, contract):
                ways = frozenset(way for variant in schema.variants for way in variants[variant])
                if schema.missing is None:
                    named = next((way.database for way in ways if way.database is not None), None)
                    tables.append(TableRecords(table, name, schema.contract, ways, named))
                else:
                    missing |= dict.fromkeys(ways, schema.missing)
    return Discovery(tables, missing)


def _database(
    feed: Feed, contracts: Mapping[str, Contract], of_feed: Iterable[Mapping[str, Any]]
) -> str | None:
    assert isinstance(feed.source, CesSource), "config binds a dialect to its source"
    so_far = (contract.source_database for contract in contracts.values())
    named: Counter[str] = Counter()
    for row in of_feed:
        if row["database"] is not None:
            named[row["database"]] += row["events"]
    return database_meant(feed.source.database_name, feed.database, so_far, named)


def _elsewhere(way: Way, database: str | None) -> Outcome | None:
    """Returns why messages that name another database than the feed's are refused; None for others."""
    if way.database is None or way.database == database:
        return None
    return Problem(DATABASE_MISMATCH, not_of_database(way.database, database)).outcome


def routes(raw: pa.RecordBatch, plan: Discovery) -> pa.Int32Array:
    """Returns for each message the number of its `TableRecords`, `SEGMENT`, or NULL if it has no table."""
    numbers = {way: at for at, table in enumerate(plan.tables) for way in table.ways}
    table_numbers: list[int | None] = []
    for value in raw.column("value").to_pylist():
        routed = route(value)
        table_numbers.append(
            SEGMENT if routed is None else numbers.get(routed.way) if isinstance(routed, Routed) else None
        )
    return pa.array(table_numbers, pa.int32())


def route(value: bytes | None) -> Routed | Outcome | None:
    """Returns the table of a message, or why it has none; None for a part of a split event."""
    usual = _usual(value)
    if usual is not None:
        return usual if isinstance(usual, Routed) else None
    try:
        outside = envelope.read(value)
        if not outside.is_whole:
            return None
        data = event.read(outside.data)
    except (Problem, Tombstone) as problem:
        return problem.outcome
    way = Way(data.table, data.cols, tuple(data.key), data.database)
    return Routed(way, outside.logicalid, data.transaction.get("commitlsn"))


# Images are skipped.
_of_envelope, _of_data = (msgspec.json.Decoder(kind).decode for kind in typed.envelope_of(msgspec.Raw))


def _usual(value: bytes | None) -> Routed | int | None:
    """Returns the table of a message, or `SEGMENT`; None if the message is not in the usual form."""
    if value is None:
        return None
    try:
        outside: Any = _of_envelope(avro.as_json(value))
        data = outside.data
        is_whole = envelope.has_whole_event(outside)
        if not is_whole:
            return SEGMENT if isinstance(data, str) and is_whole is False else None
        if isinstance(data, str):
            data = _of_data(data)
        else:
            # The decoder does not check whether skipped parts are UTF-8.
            value.decode()
        return None if data is None else _routed(outside, data.eventsource)
    except UNREADABLE:
        return None


def _routed(outside: Any, source: Any) -> Routed | None:
    cols = bytes(source.cols)
    if not source.schema or not source.tbl or cols[:1] != b"[" or b"\\u" in cols:
        return None
    keys = tuple([key.columnname for key in source.pkkey or ()])
    commitlsn = None if source.transaction is None else source.transaction.commitlsn
    way = Way(f"{source.schema}.{source.tbl}", cols.decode(), keys, source.db)
    return Routed(way, outside.logicalid, commitlsn)
