"""Messages by what their own schema blocks say of the columns: a batch, and a topic, can have several."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec
from msgspec import UNSET, UnsetType

from changeledger.dialects.debezium.fields import Fields
from changeledger.dialects.debezium.plain import BARE
from changeledger.dialects.debezium.plan import TablePlan
from changeledger.dialects.debezium.schema_block import written_fields
from changeledger.kernels.json_text import UNREADABLE

_BEFORE_BLOCK = re.compile(rb'\s*\{\s*"schema"\s*:\s*')
Beginning = bytes | tuple[bytes, ...]
# A connector has one block at a time: more than these are looked for in each message.
_MOST_BEGINNINGS = 20


class _Wrapped(msgspec.Struct, gc=False):
    schema: msgspec.Raw | UnsetType = UNSET


_WRAPPED = msgspec.json.Decoder(_Wrapped)


def plans(values: Sequence[bytes | None], plan: TablePlan) -> Iterator[tuple[TablePlan, Sequence[int]]]:
    """How the messages are decoded, and which of them so."""
    if plan.unions or plan.avro_schema is not None:
        yield plan, range(len(values))
        return
    names = plan.writer_schema.names
    groups: dict[Fields | None, list[int]] = {}
    for block, rows in _by_block(values).items():
        # Of no message nothing is decoded, in one way.
        if rows or not values:
            groups.setdefault(_fields(block, names), []).extend(rows)
    for fields, rows in groups.items():
        yield plan.written_as(fields), sorted(rows)


def _by_block(values: Sequence[bytes | None]) -> dict[bytes, list[int]]:
    """The messages of each schema block; of none where it is empty."""
    if all([value is None or value.startswith(BARE) for value in values]):  # noqa: C419 - a generator is slower
        return {b"": [*range(len(values))]}
    groups: dict[bytes, list[int]] = {b"": []}
    beginnings: list[tuple[Beginning, list[int]]] = [(BARE, groups[b""])]
    # Most messages begin as the one before.
    begin, rows = beginnings[0]
    for at, value in enumerate(values):
        if value is None:
            groups[b""].append(at)
            continue
        if not value.startswith(begin):
            known = next((b for b in beginnings if value.startswith(b[0])), None)
            begin, rows = known or _beginning(value, groups)
            if known is None and len(beginnings) < _MOST_BEGINNINGS:
                beginnings.append((begin, rows))
        rows.append(at)
    return groups


def _beginning(value: bytes, groups: dict[bytes, list[int]]) -> tuple[Beginning, list[int]]:
    """What messages with the same block as this one begin with, and which they are."""
    block = _block(value)
    before = _BEFORE_BLOCK.match(value)
    # Behind the payload, or where it stands twice, nothing but the whole message is known to have it.
    is_first = block and before is not None and value.startswith(block, before.end())
    begin = value[: before.end() + len(block)] if is_first and before is not None else value
    return begin, groups.setdefault(block, [])


def _block(value: bytes) -> bytes:
    try:
        block = _WRAPPED.decode(value).schema
    except UNREADABLE:
        return b""
    return b"" if block is UNSET else bytes(block)


@lru_cache(maxsize=256)
def _fields(block: bytes, columns: tuple[str, ...]) -> Fields | None:
    try:
        return written_fields(json.loads(block or b"null"), columns)
    except (ValueError, RecursionError):
        return None
