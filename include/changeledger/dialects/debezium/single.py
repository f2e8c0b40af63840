"""Reads one event on its own, member by member, or finds out why it cannot be read.

The first problem counts, in the order of the functions here. Details are at most 500 characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from changeledger.dialects.debezium import sides, unions
from changeledger.dialects.debezium.control import control_kind
from changeledger.dialects.debezium.keys import KEY_AS_WRITTEN, lacks_of_key
from changeledger.dialects.debezium.names import mismatch
from changeledger.dialects.debezium.plan import TablePlan
from changeledger.dialects.debezium.sides import Side
from changeledger.dialects.debezium.structs import FIRST, LAST, SNAPSHOTS
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.problems import LONE_SURROGATE, Problem, named
from changeledger.kernels import json_text, lsn, sql_text
from changeledger.kernels.cells import NOT_CAPTURED
from changeledger.kernels.json_text import Members, NotJson, Token
from changeledger.model import change
from changeledger.model.source_names import DATABASE_MISMATCH, TABLES_ALIKE, not_meant, not_of_database

OPERATIONS = {"c": change.INSERT, "u": change.UPDATE, "d": change.DELETE, "r": change.SNAPSHOT}
_NOT_UTF8 = "the message is not UTF-8"
NOT_UTF8 = Outcome(change.QUARANTINED, "not_utf8", _NOT_UTF8)
_LONG = 2**63 - 1
_BLANKS = b" \t\r\n"
Texts = Mapping[str, str | None]


class Event(NamedTuple):
    """An event with values in the types of `events.PLACE` and of the writer schema."""

    op: str
    connector: str | None
    snapshot: str | None
    committed_ms: int
    sent_ms: int | None
    commit_lsn: bytes | None
    change_lsn: bytes | None
    wal: int | None
    ordinal: int | None
    transaction: str | None
    before: Side | None
    after: Side | None


class Envelope(NamedTuple):
    """The members of an event: `before` and `after` as JSON tokens, all others as text."""

    op: str | None
    ts_ms: str | None
    source: Texts | None
    transaction: str | None
    before: Members | None
    after: Members | None
    # Whether the cells of the images are wrapped in the names of their types.
    unions: bool = False


def read(value: bytes, plan: TablePlan, topic: str, key: bytes | None) -> Event | Outcome:
    """Reads a JSON message of the table: returns the event, or the outcome of a message that is no change."""
    try:
        message = members_of(value)
        envelope = _envelope(message, value, plan)
        if envelope.op is None:
            kind = control_kind(message, topic, key)
            if wraps_nothing(message):
                return Outcome(change.TOMBSTONE)
            if kind is not None:
                return Outcome(change.CONTROL, kind)
        return event_of(envelope, plan)
    except Problem as problem:
        return problem.outcome


def members_of(value: bytes) -> dict[str, Token]:
    """Returns the members of a message. Raises Problem unless it is one JSON object in UTF-8."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise Problem("not_utf8", _NOT_UTF8) from None
    if not value.strip(_BLANKS).startswith(b"{"):
        raise Problem("not_an_object", text)
    try:
        return json_text.members(value)
    except NotJson:
        if json_text.has_lone_surrogate(value):
            raise Problem(*LONE_SURROGATE) from None
        raise Problem("unparseable_json", text) from None


def wraps_nothing(message: Members) -> bool:
    """Returns whether the object is a tombstone as Connect's converter writes it with schemas enabled."""
    return message.keys() == {"payload", "schema"} and json_text.text(message["payload"]) is None


def _envelope(message: Members, value: bytes, plan: TablePlan) -> Envelope:
    def inside(parent: Members, name: str) -> dict[str, Token] | None:
        token = parent.get(name)
        if token is None or bytes(token) == b"null":
            return None
        if not json_text.is_object(token):
            raise Problem("malformed_envelope", value.decode())
        return json_text.members(token)

    outer = {name: inside(message, name) for name in ("payload", "before", "after", "source", "transaction")}
    payload = outer["payload"]
    if payload is not None:
        outer |= {name: inside(payload, name) for name in ("before", "after", "source", "transaction")}
        message = payload
    source, transaction = outer["source"], outer["transaction"] or {}
    before, after = (outer[side] for side in ("before", "after"))
    rows = (unions.row(before), unions.row(after)) if plan.unions else (None, None)
    return Envelope(
        json_text.text(message.get("op")),
        _plain(message.get("ts_ms"), plan),
        None if source is None else {name: _plain(token, plan) for name, token in source.items()},
        json_text.text(transaction.get("id")),
        before if rows[0] is None else rows[0],
        after if rows[1] is None else rows[1],
        rows != (None, None),
    )


def _plain(token: Token | None, plan: TablePlan) -> str | None:
    """Returns the text of a value, which may be wrapped in the name of its type."""
    inside = unions.cell(token, in_bytes=False)[0] if plan.unions and token is not None else None
    return json_text.text(token) if inside is None else inside


def event_of(envelope: Envelope, plan: TablePlan) -> Event:
    """Returns the event in an envelope. Raises Problem."""
    op, source = _operation(envelope, plan)
    snapshot = (source.get("snapshot") or "false").lower()
    if snapshot not in SNAPSHOTS:
        raise Problem("unknown_snapshot", f"source.snapshot is {snapshot}")
    is_snapshot = op == "r" or (op == "c" and snapshot != "false")
    commit, change_lsn, wal = _position(source, is_snapshot)
    ordinal = _ordinal(source.get("event_serial_no"))
    committed = _millis(source.get("ts_ms"))
    if committed is None:
        raise Problem("malformed_time", named("source.ts_ms", source.get("ts_ms")))
    before, after = _images(envelope, op, plan)
    return Event(
        op, source.get("connector"), snapshot, committed, _millis(envelope.ts_ms),
        commit, change_lsn, wal, ordinal, envelope.transaction, before, after,
    )  # fmt: skip


def _operation(envelope: Envelope, plan: TablePlan) -> tuple[str, Texts]:
    op, source = envelope.op, envelope.source
    if source is None:
        raise Problem("no_source", "the message has no `source`")
    if op is None:
        raise Problem("no_operation", "the message has no `op`")
    if op not in OPERATIONS:
        raise Problem("unknown_operation", f"op is {op}")
    _check_table(source.get("schema"), source.get("table"), plan)
    # Tables of two databases can share names, and even positions.
    database = source.get("db")
    if database is not None and (plan.is_of_several or plan.database not in {None, database}):
        raise Problem(DATABASE_MISMATCH, not_of_database(database, plan.database))
    if op != "d" and envelope.after is None:
        raise Problem("no_after_image", f"op is {op}")
    if op == "d" and envelope.before is None:
        raise Problem("no_before_image", "a delete without `before`")
    return op, source


def _check_table(schema: str | None, name: str | None, plan: TablePlan) -> None:
    """Raises Problem if a message is of another table. Messages of Debezium 0.x do not name their table."""
    source_table, table = plan.source_table, plan.writer_schema.table
    named = f"{source_table.split('.', 1)[0] if schema is None else schema}.{name}"
    if name is None or named == source_table:
        return
    if named.lower() == source_table.lower():
        raise Problem(TABLES_ALIKE, not_meant(named, table, source_table))
    raise mismatch(named, source_table)


def _position(source: Texts, is_snapshot: bool) -> tuple[bytes | None, bytes | None, int | None]:
    """Returns commit LSN, change LSN, and the position of another connector, which replaces absent LSNs."""
    is_other = source.get("connector") not in {None, "sqlserver"}
    wal = sql_text.whole(source.get("lsn") or "", 0, _LONG) if is_other else None
    lsns: dict[str, bytes | None] = {}
    for name in ("commit_lsn", "change_lsn"):
        text = source.get(name)
        lsns[name] = None if text is None else lsn.parse(text)
        if lsns[name] is None and wal is None and not lsn.is_absent(text) and not is_snapshot:
            raise Problem("malformed_lsn", f"{name} is {text}")
    if not is_snapshot and lsns["commit_lsn"] is None and wal is None:
        raise Problem("no_position", "`source` has neither commit_lsn nor lsn")
    return lsns["commit_lsn"], lsns["change_lsn"], wal


def _ordinal(text: str | None) -> int | None:
    ordinal = None if text is None else sql_text.count(text)
    if text is not None and ordinal is None:
        raise Problem("malformed_serial", f"event_serial_no is {text}")
    return ordinal


def _millis(text: str | None) -> int | None:
    return None if text is None else sql_text.whole(text, FIRST, LAST)


def _images(envelope: Envelope, op: str, plan: TablePlan) -> tuple[Side | None, Side | None]:
    # A delete's after image is ignored: other producers send an empty one.
    written_after = None if op == "d" else envelope.after
    before, after = sides.images(envelope.before, written_after, plan, envelope.unions)
    key_image = before if op == "d" else after
    assert key_image is not None, "_operation requires it"
    keys = [at for at, column in enumerate(plan.writer_schema.columns) if column.key_position]
    absent = [plan.writer_schema.names[at] for at in keys if key_image.states[at] == NOT_CAPTURED]
    if absent:
        members = envelope.before if op == "d" else envelope.after
        what = f"{lacks_of_key(absent, members)}: {KEY_AS_WRITTEN}" if members else "the image is empty"
        raise Problem("null_key", what)
    if any(key_image.values[at] is None for at in keys):
        raise Problem("null_key", "a column of the key is NULL")
    return before, after
