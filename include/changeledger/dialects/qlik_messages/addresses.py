"""Reads what a message says about itself before its writer schema is known."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from changeledger.dialects.messages.problems import Problem
from changeledger.dialects.qlik_messages import message as messages
from changeledger.dialects.qlik_messages.message import METADATA
from changeledger.kernels import json_text
from changeledger.kernels.json_text import UNREADABLE, Members, NotJson, Token


class Address(NamedTuple):
    """What a message says about where it belongs."""

    is_metadata: bool = False
    schema: str | None = None
    table: str | None = None
    schema_id: str | None = None


class _Headers(msgspec.Struct, gc=False):
    operation: str | None = None
    externalSchemaId: str | None = None  # noqa: N815 - as Qlik writes it


class _Body(msgspec.Struct, gc=False):
    schema: str | None = None
    table: str | None = None
    headers: _Headers | None = None
    tableStructure: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815


class _Message(_Body, gc=False):
    type: str | None = None
    messageSchemaId: str | None = None  # noqa: N815
    message: _Body | None = None


_DECODE = msgspec.json.Decoder(_Message).decode


def address(value: bytes | None) -> Address:
    """Returns the address of a message, an empty one if it cannot be read."""
    if value is None:
        return Address()
    try:
        message = _DECODE(value)
    except UNREADABLE:
        return single_address(value)
    body = message.message or message
    headers = body.headers
    schema_id = None if headers is None else headers.externalSchemaId
    if message.type is not None:
        is_metadata = message.type.upper() in METADATA
    else:
        has_columns = bytes(body.tableStructure) != b"null"
        is_metadata = has_columns and (headers is None or headers.operation is None)
    # An empty text says nothing.
    return Address(is_metadata, body.schema, body.table, schema_id or message.messageSchemaId or None)


def single_address(value: bytes) -> Address:
    """Does what `address` does, member by member, for a message that is not in the usual form."""
    try:
        outer = json_text.members(value)
        inner = _object(outer.get("message"))
        body = outer if inner is None else inner
        headers = _object(body.get("headers")) or {}
        named = {name: json_text.text(body.get(name)) for name in ("schema", "table", "tableStructure")}
        kind, own_id = json_text.text(outer.get("type")), json_text.text(outer.get("messageSchemaId"))
        operation, schema_id = (json_text.text(headers.get(n)) for n in ("operation", "externalSchemaId"))
    except (NotJson, *UNREADABLE):
        return Address()
    by_content = named["tableStructure"] is not None and operation is None
    is_metadata = by_content if kind is None else kind.upper() in METADATA
    return Address(is_metadata, named["schema"], named["table"], schema_id or own_id or None)


def _object(token: Token | None) -> Members | None:
    return None if token is None or bytes(token) == b"null" else json_text.members(token)


class Contents(NamedTuple):
    """The contents of a data message; None for what is missing or cannot be read."""

    operation: str | None = None
    timestamp: str | None = None
    sequence: str | None = None
    change_mask: str | None = None
    column_mask: str | None = None
    data: Members | None = None
    before_data: Members | None = None

    @property
    def columns(self) -> frozenset[str] | None:
        """The names in its images."""
        images = [image for image in (self.data, self.before_data) if image is not None]
        return frozenset[str]().union(*images) if images else None


# The headers of `Contents`, in its order.
_NAMES = ("operation", "timestamp", "changeSequence", "changeMask", "columnMask")


class _Said(msgspec.Struct, gc=False):
    operation: str | None = None
    timestamp: str | int | None = None
    changeSequence: str | None = None  # noqa: N815
    changeMask: str | None = None  # noqa: N815
    columnMask: str | None = None  # noqa: N815


class _Images(msgspec.Struct, gc=False):
    headers: _Said | None = None
    data: dict[str, msgspec.Raw] | None = None
    beforeData: dict[str, msgspec.Raw] | None = None  # noqa: N815


class _Data(_Images, gc=False):
    message: _Images | None = None


_DECODE_DATA = msgspec.json.Decoder(_Data).decode


def contents(value: bytes | None) -> Contents:
    """Returns the contents of a data message, empty ones if it cannot be read."""
    if value is None:
        return Contents()
    try:
        message = _DECODE_DATA(value)
    except UNREADABLE:
        return single_contents(value)
    body = message.message or message
    said = body.headers or _Said()
    timestamp = None if said.timestamp is None else str(said.timestamp)
    masks = said.changeMask, said.columnMask
    return Contents(said.operation, timestamp, said.changeSequence, *masks, body.data, body.beforeData)


def single_contents(value: bytes) -> Contents:
    """Does what `contents` does, member by member, for a message that is not in the usual form."""
    try:
        message = messages.read(value)
    except Problem:
        return Contents()
    operation, timestamp, sequence, changes, columns = map(message.headers.get, _NAMES)
    return Contents(operation, timestamp, sequence, changes, columns, message.data, message.before_data)
