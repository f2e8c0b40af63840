"""Sample messages as plain objects, for what is found out of a window before its messages are read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from changeledger.kernels import json_text
from changeledger.kernels.json_text import UNREADABLE
from changeledger.model.column_names import unlike

# What ByLogicalTableRouter, and ToLogicalTopicRouter after it, add to keys: the table, which is no column.
_OF_ROUTERS = {"__dbz__physicalTableIdentifier", "__dbz__sourceIdentifier"}
_PAYLOAD = b'"payload":'
# How a message begins that has no block.
BARE = (b'{"before"', b'{"after"', b'{"source"', b'{"op"', b'{"ts_', b'{"transaction"')
# How one begins that has a schema block before its payload.
_BEFORE_BLOCK = re.compile(rb'\s*\{\s*"schema"\s*:')


def json_object(raw: bytes | None) -> Mapping[str, Any]:
    """The JSON object in `raw`, empty if there is none: a broken sample is ignored.

    So is one that no decoder reads: one that is not UTF-8, or has half a surrogate pair in it.
    """
    text = raw or b"{}"
    try:
        value = json.loads(text.decode())
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) and not json_text.has_lone_surrogate(text) else {}


def beginning(value: bytes) -> bytes:
    """What is the same for all messages of one writer schema, up to their own payload; empty without a block.

    The row of a message without one can have a column of the payload's name.
    """
    if value.startswith(BARE):
        return b""
    at = value.find(_PAYLOAD) if _BEFORE_BLOCK.match(value) else -1
    return b"" if at < 0 else value[: at + len(_PAYLOAD)]


def payload_of(message: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = message.get("payload")
    return inner if isinstance(inner, dict) else message


def names_in(key: Mapping[str, Any]) -> tuple[str, ...]:
    """The names in a key, by its schema block or its members; none if it is no object."""
    try:
        names = tuple(str(field["field"]) for field in key["schema"]["fields"])
    except (LookupError, TypeError):
        names = ()
    payload = payload_of(key)
    is_whole = payload is not key or key.keys() != {"schema", "payload"}
    return tuple(name for name in names or (payload if is_whole else ()) if name not in _OF_ROUTERS)


def lacking(names: Iterable[str], columns: Iterable[str]) -> list[str]:
    """The names that none of the columns has."""
    known = {name.lower() for name in columns}
    return [name for name in names if name.lower() not in known]


def places(names: Sequence[str], columns: Sequence[str]) -> dict[str, int]:
    """The place in the key of each of its columns, by its name in lower case; empty where one is lacking.

    A key column that the connector leaves out of the values stays in the keys (Debezium's page on SQL Server,
    `column.exclude.list`): what is left of such a key identifies the wrong rows.
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
    """No more of a message than names its table."""

    payload: _Payload | None = None
    source: _Source | None = None


_ROUTED = msgspec.json.Decoder(_Routed)


def table_in(value: bytes | None) -> str | None:
    """`schema.table`, as `source` has it; None if it does not."""
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
