"""Reads sample messages as plain objects, for the discovery that precedes decoding."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from changeledger.kernels import json_text
from changeledger.kernels.json_text import UNREADABLE
from changeledger.model.column_names import unlike

# Members that ByLogicalTableRouter and its successor ToLogicalTopicRouter add to keys: the table, no column.
_OF_ROUTERS = {"__dbz__physicalTableIdentifier", "__dbz__sourceIdentifier"}
_PAYLOAD = b'"payload":'
# Beginnings of messages without a schema block.
BARE = (b'{"before"', b'{"after"', b'{"source"', b'{"op"', b'{"ts_', b'{"transaction"')
# What precedes the schema block of a message that has one before its payload.
BEFORE_BLOCK = re.compile(rb'\s*\{\s*"schema"\s*:\s*')
# The members of `source` that name the table.
NAMED = re.compile(rb'"schema"\s*:\s*"[^"\\]*"\s*,\s*"table"\s*:\s*"[^"\\]*"')
# Bytes by which the text from these members to the end may exceed the longest in the samples.
_SLACK = 32


def json_object(raw: bytes | None) -> Mapping[str, Any]:
    """Returns the JSON object in `raw`, or an empty one if the sample is broken.

    A sample that no decoder reads counts as broken: one that is not UTF-8, or has half of a surrogate pair.
    """
    text = raw or b"{}"
    try:
        value = json.loads(text.decode())
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) and not json_text.has_lone_surrogate(text) else {}


def beginning(value: bytes) -> bytes:
    """Returns the part of a message up to its payload, which is the same for all of one writer schema.

    Returns empty bytes for a message without a schema block; its row can have a column named `payload`.
    """
    if value.startswith(BARE):
        return b""
    at = value.find(_PAYLOAD) if BEFORE_BLOCK.match(value) else -1
    return b"" if at < 0 else value[: at + len(_PAYLOAD)]


class Alike:
    """Recognizes messages that begin like one of a table's messages, and name the table in the same words."""

    def __init__(self, messages: Iterable[bytes]) -> None:
        begins, names, tail = set(), set(), 0
        for text in messages:
            begins.add(beginning(text) or text.partition(b":")[0])
            for named in NAMED.finditer(text):
                names.add(named[0])
                tail = max(tail, len(text) - named.start() + _SLACK)
        self._begins, self._names, self._tail = tuple(begins), names, tail

    def holds(self, value: bytes) -> bool:
        # Debezium 0.x names the table in the topic only.
        near_end = value[-self._tail :]
        named = not self._names or any(name in near_end for name in self._names)
        return named and value.startswith(self._begins)


def payload_of(message: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = message.get("payload")
    return inner if isinstance(inner, dict) else message


def names_in(key: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the column names in a key, from its schema block or its members; none if it is no object."""
    try:
        names = tuple(str(field["field"]) for field in key["schema"]["fields"])
    except (LookupError, TypeError):
        names = ()
    payload = payload_of(key)
    is_whole = payload is not key or key.keys() != {"schema", "payload"}
    return tuple(name for name in names or (payload if is_whole else ()) if name not in _OF_ROUTERS)


def lacking(names: Iterable[str], columns: Iterable[str]) -> list[str]:
    """Returns the names that none of the columns has, in any case."""
    known = {name.lower() for name in columns}
    return [name for name in names if name.lower() not in known]


def places(names: Sequence[str], columns: Sequence[str]) -> dict[str, int]:
    """Maps each column of the key, in lower case, to its place in the key; empty if `columns` lacks one.

    A key column that the connector leaves out of the values stays in the keys (Debezium's page on SQL Server,
    `column.exclude.list`). The rest of such a key would identify the wrong rows.
    """
    if lacking(names, columns):
        return {}
    return {name.lower(): at for at, name in enumerate(unlike(names), 1)}


class _Source(msgspec.Struct, gc=False):
    schema: str | None = None
    table: str | None = None


class _Payload(msgspec.Struct, gc=False):
    source: _Source | None = None


class _Routed(msgspec.Struct, gc=False):
    """The part of a message that names its table."""

    payload: _Payload | None = None
    source: _Source | None = None


_ROUTED = msgspec.json.Decoder(_Routed)


def table_in(value: bytes | None) -> str | None:
    """Returns `schema.table` from a message's `source`, or None if that does not have both."""
    if value is None:
        return None
    try:
        message = _ROUTED.decode(value)
    except UNREADABLE:
        return None
    source = (message.payload and message.payload.source) or message.source
    if source is None or source.schema is None or source.table is None:
        return None
    return f"{source.schema}.{source.table}"
