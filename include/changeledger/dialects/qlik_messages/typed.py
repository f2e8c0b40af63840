"""Decodes by types the messages that a task wrote in its usual form; `single` reads all others.

A message that is accepted here must have no problem that `single` would find, and give the same event there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import msgspec

from changeledger.dialects.qlik_messages.events import (
    DELETE,
    REFRESH,
    UPDATE,
    Event,
    is_empty,
    is_unsaid,
    layout_of,
)
from changeledger.dialects.qlik_messages.message import DATA
from changeledger.dialects.qlik_messages.metadata import MAGIC
from changeledger.kernels import json_text
from changeledger.model.contract import Contract

_Text = str | None


class Headers(msgspec.Struct, gc=False):
    operation: Literal["INSERT", "UPDATE", "DELETE", "REFRESH"]
    changeSequence: _Text = None  # noqa: N815 - as Qlik writes it
    timestamp: str | int | None = None
    streamPosition: _Text = None  # noqa: N815
    transactionId: _Text = None  # noqa: N815
    changeMask: _Text = None  # noqa: N815
    columnMask: _Text = None  # noqa: N815
    transactionEventCounter: int | str | None = None  # noqa: N815


@lru_cache(maxsize=64)
def reader_of(writer_schema: Contract) -> Callable[[int, bytes], Event | None]:
    """Returns the reader of a message (JSON), which gives None or raises one of `UNREADABLE` if unusual.

    It reads messages with or without envelope that name their table as metadata does, or not at all.
    """
    rows = layout_of(writer_schema)
    schema, table = (writer_schema.source_table or writer_schema.table).split(".", 1)
    members: list[tuple[str, Any, Any]] = [
        ("schema", Literal[schema] | None, None),
        ("table", Literal[table] | None, None),
        ("headers", Headers | None, None),
        ("data", rows.row | None, None),
        ("beforeData", rows.row | None, None),
    ]
    inner = msgspec.defstruct("Body", members, gc=False)
    outer = [
        *members,
        ("magic", Literal[MAGIC] | None, None),
        ("type", Literal[DATA] | None, None),
        ("message", inner | None, None),
    ]
    decode = json_text.decoder(msgspec.defstruct("Message", outer, gc=False)).decode

    def read(at: int, value: bytes) -> Event | None:
        # The decoder does not check the bytes of skipped members, or of numbers.
        if not value.isascii():
            value.decode()
        return _event(at, decode(value), rows)

    return read


def _deleted(before: Any, after: Any, rows: Any) -> Any:
    """Returns the row of a delete, from whichever member has it; None if there is none, or two."""
    if before is None or is_empty(before, rows):
        return after
    return before if after is None or after == before or is_empty(after, rows) else None


def _event(at: int, message: Any, rows: Any) -> Event | None:
    body = message.message
    if body is None:
        if message.magic is not None:
            return None
        body = message
    headers, before, after = body.headers, body.beforeData, body.data
    if headers is None:
        return None
    operation = headers.operation
    if operation == DELETE:
        before, after = _deleted(before, after, rows), None
        if before is None:
            return None
    elif after is None:
        return None
    elif operation != UPDATE or is_unsaid(before, rows):
        before = None
    if operation == REFRESH:
        return Event(at, operation, None, None, None, None, None, None, None, before, after)
    return Event(
        at, operation, headers.changeSequence, headers.timestamp, headers.streamPosition,
        headers.transactionId, headers.changeMask, headers.columnMask, headers.transactionEventCounter,
        before, after,
    )  # fmt: skip
