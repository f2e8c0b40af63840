"""Recognizes messages that hold a dialect's event in a member, as tools that copy messages write them."""

from __future__ import annotations

from collections.abc import Mapping

from changeledger.dialects.messages.problems import Problem
from changeledger.kernels import json_text
from changeledger.kernels.json_text import UNREADABLE, Members, NotJson, Token
from changeledger.model.column_names import shown

# What each dialect's messages are called.
EVENTS = {
    "debezium": "a change event of Debezium",
    "ces": "an event of SQL Server's change event streaming",
    "qlik_messages": "a message of Qlik",
}
# Nesting depth of the search: two wrappings by Connect's converter, or one by another tool, and one more.
_MOST_DEEP = 3
_ALONE = (
    "as a second converter or a tool between the connector and the topic writes it. Make it pass the "
    "bytes through unchanged (Connect: ByteArrayConverter for both), each event as one message"
)
_IN_TEXT = (
    "JSON inside a JSON string instead of an object: make the tool that copies the messages pass the "
    "bytes through unchanged (Connect: ByteArrayConverter), or write objects as objects"
)
_OBJECTS = ("payload", "before", "after", "source", "transaction")
_NO_DIALECT = (
    "which no dialect reads: capture the table with Debezium, Qlik Replicate or change event streaming"
)
# Tools whose changes no dialect reads: name, required members, and required members of nested objects.
_OTHER_TOOLS: tuple[tuple[str, set[str], Mapping[str, set[str]]], ...] = (
    ("AWS DMS", {"metadata"}, {"metadata": {"record-type"}}),
    ("Oracle GoldenGate", {"table", "op_type", "op_ts", "pos"}, {}),
    ("Maxwell", {"database", "table", "type", "ts", "data"}, {"data": set()}),
    ("Canal", {"database", "table", "type", "ts", "data", "isDdl"}, {}),
    ("Striim", {"metadata", "data", "before", "userdata"}, {"metadata": {"OperationName"}}),
)


def event(members: Members) -> Problem | None:
    """Returns the problem of a message with a dialect's whole event in a member, or None."""
    inside = _inside(members, _MOST_DEEP)
    if inside is None:
        return None
    path, dialect = inside
    return Problem("wrapped_message", f"{EVENTS[dialect]} in `{shown([path])}`, {_ALONE}")


def texts(members: Members) -> Problem | None:
    """Returns the problem of a Debezium event in which an object is written as text, or None."""
    payload = members.get("payload")
    if payload is not None and json_text.is_object(payload):
        members = json_text.members(payload)
    written = [name for name in _OBJECTS if _of_text(members.get(name)) is not None]
    names = ", ".join(f"`{name}`" for name in written)
    return Problem("json_in_text", f"{names}: {_IN_TEXT}") if written else None


def other_tool(members: Members) -> Problem | None:
    for name, names, objects in _OTHER_TOOLS:
        if names <= members.keys() and all(_has(members[at], inner) for at, inner in objects.items()):
            return Problem("other_tool_event", f"a change as {name} writes it, {_NO_DIALECT}")
    return None


def _has(token: Token, names: set[str]) -> bool:
    return json_text.is_object(token) and names <= json_text.members(token).keys()


def _inside(members: Members, depth: int) -> tuple[str, str] | None:
    """Returns the path of a nested event and its dialect, or None."""
    inner = [(name, _object(token)) for name, token in members.items()]
    objects = [(name, within) for name, within in inner if within is not None]
    for name, within in objects:
        dialect = _whole(within)
        if dialect is not None:
            return name, dialect
    for name, within in objects:
        deeper = _inside(within, depth - 1) if depth > 1 else None
        if deeper is not None:
            return f"{name}.{deeper[0]}", deeper[1]
    return None


def _object(token: Token) -> Members | None:
    """Returns the members of an object, of an object in text, or of the first object in an array."""
    try:
        if json_text.is_object(token):
            return json_text.members(token)
        if json_text.is_nested(token):
            return json_text.members(json_text.elements(token)[0])
        return _of_text(token)
    except (NotJson, IndexError, *UNREADABLE):
        return None


def _of_text(token: Token | None) -> Members | None:
    if token is None or not json_text.is_text(token):
        return None
    text = (json_text.text(token) or "").strip()
    try:
        return json_text.members(text.encode()) if text.startswith("{") else None
    except (NotJson, *UNREADABLE):
        return None


def _whole(members: Members) -> str | None:
    """Returns the dialect of an event with its whole envelope, or None.

    Part of an envelope is not enough, as JSON in a column can have some of the names.
    """
    names = members.keys()
    source, headers = members.get("source"), members.get("headers")
    if {"op", "ts_ms"} <= names and source is not None and json_text.is_object(source):
        return "debezium"
    kind = json_text.text(members.get("type")) or ""
    if {"specversion", "data"} <= names and kind.lower().startswith("com.microsoft.sql.ces."):
        return "ces"
    if "data" in names and headers is not None and json_text.is_object(headers):
        return "qlik_messages" if "changeSequence" in json_text.members(headers) else None
    return None
