"""Reads a single message of a table: its event, or why it cannot be read.

The first problem counts. Problems of positions, times and cells are found for all events together (`decode`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from changeledger.dialects.ces import envelope, event
from changeledger.dialects.ces.envelope import Envelope, Tombstone
from changeledger.dialects.ces.event import EventData
from changeledger.dialects.ces.events import (
    DELETE,
    OPERATIONS,
    Event,
    Texts,
    as_row,
    image_after,
    image_before,
    layout_of,
)
from changeledger.dialects.ces.key_beside import doubtful
from changeledger.dialects.messages.json_numbers import INEXACT, is_printed_double
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.problems import LONE_SURROGATE, Problem, columns_alike, named, no_value_of
from changeledger.dialects.plan import TablePlan
from changeledger.kernels import json_text
from changeledger.kernels.json_text import Token
from changeledger.model.column_names import alike
from changeledger.model.contract import Column, Contract
from changeledger.model.sql_type import TEXTS

_KIND = re.compile(r"com\.microsoft\.sql\.ces\.dml\.v[0-9]+\Z")


@lru_cache(maxsize=64)
def is_known(kind: str) -> bool:
    """Returns whether a message's `type` is that of a change, in any version."""
    return _KIND.match(kind.lower()) is not None


def read(at: int, value: bytes | None, plan: TablePlan) -> Event | Outcome:
    """Reads the message with the number `at`."""
    try:
        outside = envelope.read(value)
        return _event(at, outside, event.read(outside.data), plan)
    except (Problem, Tombstone) as problem:
        return problem.outcome


def _event(at: int, outside: Envelope, data: EventData, plan: TablePlan) -> Event:
    rows = layout_of(plan.writer_schema)
    kind, operation = outside.type, outside.operation
    if kind is None or not is_known(kind):
        raise Problem("unknown_type", named("type", kind))
    if operation is None:
        raise Problem("no_operation", "the message has no `operation`")
    if operation.upper() not in OPERATIONS:
        raise Problem("unknown_operation", named("operation", operation))
    old, current = _images(data)
    if operation.upper() != DELETE and not current:
        raise Problem("no_after_image", named("operation", operation))
    for members in (old, current):
        if twice := alike(list(members)):
            raise columns_alike(data.table, twice)
    operation = operation.upper()
    sent_before = image_before(operation, old, data.key, rows)
    sent_after = image_after(operation, current, data.key, rows)
    written = _by_column((sent_before or {}, sent_after or {}), plan.writer_schema)
    decimals = (token for column, token in written if column.spark_type.startswith("decimal"))
    if any(map(is_printed_double, decimals)):
        raise Problem("inexact_number", INEXACT)
    if bad := [column for column, token in written if _is_other(column, token)]:
        raise Problem("value_does_not_fit", no_value_of(dict.fromkeys(bad)))
    before, unknown = as_row(None if sent_before is None else _texts(sent_before), rows)
    after, others = as_row(None if sent_after is None else _texts(sent_after), rows)
    key_image = before if operation == DELETE else after
    place = data.transaction
    return Event(
        at, operation, kind, outside.logicalid, outside.time,
        place.get("commitlsn"), place.get("sequencenumber"), place.get("committime"),
        before, after, bool(old), bool(current), unknown or others,
        doubtful(_texts(data.key), key_image, rows),
        None if data.cols is None else data.cols.encode(),
    )  # fmt: skip


def _texts(members: Mapping[str, Token]) -> Texts:
    return {name: json_text.text(token) for name, token in members.items()}


def _by_column(images: Iterable[Mapping[str, Token]], writer_schema: Contract) -> list[tuple[Column, Token]]:
    """Returns the tokens of the images with their columns, in the order of the columns."""
    tokens: dict[str, list[Token]] = {}
    for name, token in (member for image in images for member in image.items()):
        tokens.setdefault(name.lower(), []).append(token)
    return [
        (column, token) for column in writer_schema.columns for token in tokens.get(column.name.lower(), ())
    ]


def _is_other(column: Column, token: Token) -> bool:
    """Returns whether a member's text may not be its value's. The producer writes every value as text.

    The text of an unquoted number or `true` may also be base64. Nothing says which text an object or an array
    was, because its spaces are gone.
    """
    if column.spark_type == "binary":
        return json_text.is_unquoted(token)
    return column.sql_type.base in TEXTS and column.length_stated and json_text.is_nested(token)


def _images(data: EventData) -> tuple[dict[str, Token], dict[str, Token]]:
    """Returns the members of both images. An image that is no object counts before half a surrogate pair."""
    images, surrogates = [], None
    for side, text in (("old", data.old), ("current", data.current)):
        try:
            images.append(event.image(text, side))
        except Problem as problem:
            if problem.outcome.reason != LONE_SURROGATE[0]:
                raise
            surrogates = problem
    if surrogates is not None:
        raise surrogates
    return images[0], images[1]
