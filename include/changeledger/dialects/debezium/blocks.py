"""Groups messages by what their schema blocks say about the columns.

A topic, and a batch, can have several blocks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec
from msgspec import UNSET, UnsetType

from changeledger.dialects.debezium.fields import Fields
from changeledger.dialects.debezium.plain import BARE, BEFORE_BLOCK
from changeledger.dialects.debezium.plan import TablePlan
from changeledger.dialects.debezium.schema_block import written_fields
from changeledger.kernels.json_text import UNREADABLE

Beginning = bytes | tuple[bytes, ...]
# Limit of the beginnings that each message is compared with. A connector has one block at a time.
_MOST_BEGINNINGS = 20


class _Wrapped(msgspec.Struct, gc=False):
    schema: msgspec.Raw | UnsetType = UNSET


_WRAPPED = msgspec.json.Decoder(_Wrapped)


def plans(values: Sequence[bytes | None], plan: TablePlan) -> Iterator[tuple[TablePlan, Sequence[int]]]:
    """Yields the plans by which to decode the messages, each with the numbers of its messages."""
    if plan.unions or plan.avro_schema is not None:
        yield plan, range(len(values))
        return
    names = plan.writer_schema.names
    groups: dict[Fields | None, list[int]] = {}
    for block, rows in _by_block(values).items():
        # An empty batch still gets one plan.
        if rows or not values:
            groups.setdefault(_fields(block, names), []).extend(rows)
    for fields, rows in groups.items():
        yield plan.written_as(fields), sorted(rows)


def _by_block(values: Sequence[bytes | None]) -> dict[bytes, list[int]]:
    """Groups the numbers of messages by schema block; `b""` holds the messages without one."""
    if all([value is None or value.startswith(BARE) for value in values]):  # noqa: C419 - a generator is slower
        return {b"": [*range(len(values))]}
    groups: dict[bytes, list[int]] = {b"": []}
    beginnings: list[tuple[Beginning, list[int]]] = [(BARE, groups[b""])]
    # Most messages begin like the previous one.
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
    """Returns what messages with this message's block begin with, and the group of that block."""
    block = _block(value)
    before = BEFORE_BLOCK.match(value)
    # If the block follows the payload, or `schema` occurs twice, only the whole message identifies the block.
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
