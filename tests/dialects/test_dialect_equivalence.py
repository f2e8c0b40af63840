"""Any log, written in five dialects with any of their settings, decodes to the changes of the log.

This test needs no services. tests/integration/test_dialect_equivalence.py runs all stages.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from changeledger.cli.decode import reader, records
from changeledger.model.contract import Column, Contract
from sourcelab import ces, ces_avro, debezium, qlik_messages, qlik_messages_avro, qlik_tables, sqlserver_cdc
from sourcelab.avro_converter import AvroConverter
from sourcelab.log import Change, Log, Transaction, simulate
from sourcelab.messages import Message
from sourcelab.schema_registry import SchemaRegistry
from sourcelab.tables import TABLES, Table

Lines = list[dict[str, Any]]
Place = tuple[str, str, str, str]
# Texts and bytes. A schema block does not state their length, so NULL may be an omitted large value. In a
# column that cannot be NULL, an empty value may be one.
ANY_LENGTH = frozenset(
    c.name
    for table in TABLES
    for c in table.columns
    if c.base in {"char", "varchar", "nvarchar", "varbinary", "xml"} and c.name not in table.key
)


class May(NamedTuple):
    """Differences from the log that a dialect's format and settings allow."""

    # Columns that before images, or after images, may omit.
    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    # A key update is written as a delete and an insert.
    parts_key_updates: bool = True
    # A delete has only its key.
    key_only_deletes: bool = False
    # Columns are a setting: any column except the key may be missing.
    any_column: bool = False
    before_images: bool = True
    commit_time: bool = True


NOTES = frozenset({"notes"})
# An xml is a large value, too: SQL Server's log omits it if an update does not change it.
LARGE = NOTES | {"document"}


class Reported(NamedTuple):
    """A log in a dialect, as lines that `changeledger decode` reads."""

    dialect: str
    lines: Lines
    may: May


def message_lines(reported: Iterable[Message]) -> Lines:
    def text(value: bytes | None) -> str | None:
        return None if value is None else value.decode()

    return [
        {
            "topic": m.topic, "partition": 0, "offset": at, "key": text(m.key), "value": text(m.value),
            "headers": {k: v.decode() for k, v in m.headers}, "timestamp": m.timestamp_ms,
        }
        for at, m in enumerate(reported)
    ]  # fmt: skip


def cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return str(value) if isinstance(value, Decimal | date) else value


def row_lines(
    reported: Iterable[tuple[Table, tuple[Any, ...]]], names: dict[str, tuple[str, ...]]
) -> Iterator[dict[str, Any]]:
    for table, row in reported:
        cells = dict(zip(names[table.full_name], map(cell, row), strict=True))
        yield {"table": table.full_name, "row": cells}


class Settings(NamedTuple):
    """A log, and the settings of the five tools."""

    seed: int
    transactions: int
    prefix: str
    header: tuple[str, ...]
    generation: ces.Generation
    split_at: int | None
    all_columns: bool
    old_values: bool
    zone: str
    envelope: bool
    placeholders: bool


_HEADERS = (
    tuple(name for name in qlik_tables.HEADER if name != "partition_name"),
    tuple(qlik_tables.HEADER),
    ("change_seq", "change_oper", "change_mask", "stream_position", "timestamp"),
)
any_settings = st.builds(
    Settings,
    seed=st.integers(0, 10**6),
    transactions=st.integers(1, 5),
    prefix=st.sampled_from(["header__", "H$"]),
    header=st.sampled_from(_HEADERS),
    generation=st.sampled_from(["preview", "captured", "2026"]),
    split_at=st.sampled_from([None, 300, 4_000]),
    all_columns=st.booleans(),
    old_values=st.booleans(),
    zone=st.sampled_from(["UTC", "Asia/Kolkata", "America/St_Johns"]),
    envelope=st.booleans(),
    placeholders=st.booleans(),
)


# A log with updates that do not change large values.
_WITHOUT_PLACEHOLDERS = Settings(
    seed=0, transactions=8, prefix="header__", header=_HEADERS[0], generation="2026", split_at=None,
    all_columns=True, old_values=True, zone="UTC", envelope=True, placeholders=False,
)  # fmt: skip


def writings(log: Log, how: Settings) -> list[Reported]:
    task = qlik_tables.Task(how.prefix, how.header)
    ct_names = {t.full_name: sqlserver_cdc.columns(t) for t in log.tables}
    qlik_names = {t.full_name: (*task.columns, *t.names) for t in log.tables}
    cdc = (row for tx in log.transactions for row in sqlserver_cdc.change_rows(tx))
    qlik = (row for tx in log.transactions for row in qlik_tables.change_rows(tx, task))
    streamed = ces.messages(
        log,
        generation=how.generation,
        split_at=how.split_at,
        all_columns=how.all_columns,
        old_values=how.old_values,
        zone=how.zone,
    )
    connector = debezium.messages(log, schemas=True, snapshot=False, placeholders=how.placeholders)
    replicate = qlik_messages.messages(log, envelope=how.envelope, snapshot=False)
    whole = May(LARGE, LARGE, parts_key_updates=False, key_only_deletes=True)
    return [
        Reported("sqlserver_cdc", list(row_lines(cdc, ct_names)), May(LARGE, LARGE, commit_time=False)),
        Reported("qlik_tables", list(row_lines(qlik, qlik_names)), whole),
        Reported("debezium", message_lines(connector), May(ANY_LENGTH, ANY_LENGTH)),
        Reported(
            "ces",
            message_lines(streamed),
            May(NOTES, any_column=not how.all_columns, before_images=how.old_values),
        ),
        Reported("qlik_messages", message_lines(replicate), whole._replace(after=frozenset())),
    ]


def contract(table: Table) -> Contract:
    place = {name: at for at, name in enumerate(table.key, 1)}
    return Contract(
        table=table.full_name,
        columns=tuple(
            Column(name=c.name, type=c.type, ordinal=c.ordinal, key_position=place.get(c.name, 0))
            for c in table.columns
        ),
    )


def decoded(log: Log, reported: Reported) -> list[dict[str, Any]]:
    lines = [json.dumps(line) for line in reported.lines]
    on_kafka = reader.is_on_kafka(reported.dialect)
    read = records.messages(lines) if on_kafka else records.rows(lines)
    feed = reader.feed_of(reported.dialect, read)
    if reported.dialect == "qlik_tables":
        prefix = next(iter(reported.lines[0]["row"])).removesuffix("change_seq")
        feed = feed.model_copy(update={"source": feed.source.model_copy(update={"header_prefix": prefix})})
    stated = {} if on_kafka else {t.full_name: contract(t) for t in log.tables}
    return list(reader.results(feed, read, stated))


def python(table: Table, image: dict[str, Any]) -> dict[str, Any]:
    """Converts an image's JSON texts to the columns' types, as the log has them."""

    def value(name: str, reported: Any) -> Any:
        column = next(c for c in table.columns if c.name == name)
        if reported is None:
            return None
        if column.decimal:
            return Decimal(reported)
        if column.base == "real":
            # JSON has the fewest digits that identify the number in 32 bits.
            return struct.unpack("f", struct.pack("f", reported))[0]
        if column.base in {"varbinary", "binary"}:
            return bytes.fromhex(reported[2:])
        if column.base in {"datetime", "datetime2"}:
            return datetime.fromisoformat(reported)
        return date.fromisoformat(reported) if column.base == "date" else reported

    return {name: value(name, reported) for name, reported in image.items()}


class Wanted(NamedTuple):
    operation: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    change: Change
    transaction: Transaction


def wanted(log: Log, may: May) -> Iterator[Wanted]:
    for transaction in log.transactions:
        for change in transaction.changes:
            if change.operation == "key_update" and may.parts_key_updates:
                yield Wanted("delete", change.before, None, change, transaction)
                yield Wanted("insert", None, change.after, change, transaction)
            else:
                operation = "update" if change.operation == "key_update" else change.operation
                yield Wanted(operation, change.before, change.after, change, transaction)


def place(table: str, operation: str, commit: str, key: Any) -> Place:
    return table, operation, commit, repr(key)


def check_change(dialect: str, result: dict[str, Any], want: Wanted, may: May) -> None:
    table, change = want.change.table, want.change
    if "change_lsn" in result:
        assert result["change_lsn"] == f"0x{change.change_lsn.hex().upper()}"
    at = want.transaction.commit_time.replace(tzinfo=None)
    # Rows of CDC tables have no commit time: it is in cdc.lsn_time_mapping.
    if may.commit_time:
        assert datetime.fromisoformat(result["committed_at"]).replace(tzinfo=None) == at
    gaps = {side: frozenset(result.get(f"{side}_unknown_columns", ())) for side in ("before", "after")}
    if want.operation == "update" and "changed" in result:
        # A mask may name a column whose old value is unknown.
        said = set(result["changed"])
        assert set(change.changed) - gaps["before"] - gaps["after"] <= said <= set(change.changed)
    beside_the_key = frozenset(table.names) - set(table.key)
    key_only = may.key_only_deletes and want.operation == "delete"
    unsure = may.any_column and want.operation == "update"
    all_but_key = key_only or unsure or (may.any_column and want.operation == "delete")
    for side, image in (("before", want.before), ("after", want.after)):
        may_lack = beside_the_key if all_but_key else getattr(may, side)
        reported = result.get(side)
        if side == "before" and not may.before_images:
            # A delete then has only its key.
            assert reported is None or gaps[side] == beside_the_key
            continue
        assert (reported is None) == (image is None), (dialect, side)
        assert gaps[side] <= may_lack, (dialect, side)
        if reported is not None and image is not None:
            shown = python(table, {n: v for n, v in reported.items() if n not in gaps[side]})
            assert shown == {n: image[n] for n in shown}, (dialect, side)


# A failing log is small already; shrinking it would take minutes.
@settings(max_examples=3, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
@given(how=any_settings)
@example(how=_WITHOUT_PLACEHOLDERS)
def test_any_log_in_any_dialect_is_the_same_changes(how: Settings) -> None:
    log = simulate(how.seed, how.transactions)
    for writing in writings(log, how):
        results = decoded(log, writing)
        numbers = sorted(n for f in results for n in f.get("records", [f["record"]]))
        assert numbers == list(range(1, len(writing.lines) + 1)), "each record has one result"
        others = {f["disposition"] for f in results} - {"change"}
        assert others <= {"tombstone", "control"}, (writing.dialect, results)
        changes: dict[Place, list[dict[str, Any]]] = {}
        for f in results:
            if f["disposition"] == "change":
                key = tuple(python_key(log, f))
                changes.setdefault(place(f["table"], f["operation"], f["commit_lsn"], key), []).append(f)
        for want in wanted(log, writing.may):
            table = want.change.table
            row = want.after if want.after is not None else want.before
            assert row is not None
            commit = f"0x{want.transaction.commit_lsn.hex().upper()}"
            candidates = changes.get(place(table.full_name, want.operation, commit, table.key_of(row)))
            assert candidates, (writing.dialect, want.operation, table.full_name, commit)
            check_change(writing.dialect, candidates.pop(0), want, writing.may)
        unmatched = [f for group in changes.values() for f in group]
        assert not unmatched, (writing.dialect, unmatched)


def python_key(log: Log, result: dict[str, Any]) -> list[Any]:
    table = log.table(result["table"])
    reported = python(table, result["key"])
    return [reported[name] for name in table.key]


def binary_lines(reported: Iterable[Message]) -> Lines:
    return [
        {"topic": m.topic, "offset": at, "timestamp": m.timestamp_ms}
        | {f"{member}_hex": v.hex() for member, v in (("key", m.key), ("value", m.value)) if v is not None}
        for at, m in enumerate(reported)
    ]


def in_both(dialect: str, log: Log, registry: SchemaRegistry) -> tuple[list[Message], list[Message]]:
    """Returns the log's messages in JSON and in Avro."""
    if dialect == "debezium":
        in_json = list(debezium.messages(log, schemas=True, snapshot=True))
        return in_json, list(AvroConverter(registry.register).encoded(in_json))
    if dialect == "ces":
        in_json = list(ces.messages(log, generation="captured"))
        return in_json, list(ces_avro.messages(in_json))
    in_json = list(qlik_messages.messages(log, envelope=True, snapshot=True))
    return in_json, list(qlik_messages_avro.messages(in_json))


@pytest.mark.parametrize("dialect", ["debezium", "ces", "qlik_messages"])
def test_a_log_in_avro_is_the_same_changes_as_in_json(dialect: str) -> None:
    log, registry = simulate(11, 3), SchemaRegistry()

    def read(reported: list[Message]) -> list[dict[str, Any]]:
        lines = records.messages([json.dumps(line) for line in binary_lines(reported)])
        feed = reader.feed_of(dialect, lines)
        return list(reader.results(feed, lines, {}, lambda _: registry.schemas))

    in_json, in_avro = map(read, in_both(dialect, log, registry))
    assert in_avro == in_json
    assert sum(result["disposition"] == "change" for result in in_avro) > 20
