"""Do the masks of a message name the columns that its images say, in one version of its table?

Versions that have the same columns in other places (one was dropped, and added again) are told apart by that.
The rules are those of `findings`, on one message before it is decoded; either byte order will do.
"""

from __future__ import annotations

from typing import get_args

from changeledger.dialects.qlik_messages import masks
from changeledger.dialects.qlik_messages.addresses import Contents
from changeledger.dialects.qlik_messages.events import DELETE, INSERT, UPDATE
from changeledger.dialects.qlik_messages.values import is_null
from changeledger.model.contract import ByteOrder, Contract


def fits(contents: Contents, writer_schema: Contract) -> bool:
    return any(_fits(contents, writer_schema, order) for order in get_args(ByteOrder))


def _fits(contents: Contents, writer_schema: Contract, order: ByteOrder) -> bool:
    named, present = (_named(text, order) for text in (contents.change_mask, contents.column_mask))
    highest = max(column.ordinal for column in writer_schema.columns)
    if any(mask is not None and mask >> highest for mask in (named, present)):
        return False
    after = contents.data or {}
    if present is not None and contents.operation != DELETE:
        absent = [c.name for c in writer_schema.columns if not present >> (c.ordinal - 1) & 1]
        if any(not is_null(after.get(name)) for name in absent):
            return False
    return named is None or all(
        expected is None or expected == bool(named >> (column.ordinal - 1) & 1)
        for column, expected in zip(writer_schema.columns, _expected(contents, writer_schema), strict=True)
    )


def _named(text: str | None, order: ByteOrder) -> int | None:
    mask = masks.parse(text) if text else None
    return None if mask is None else int.from_bytes(mask, order)


def _expected(contents: Contents, writer_schema: Contract) -> list[bool | None]:
    """For each column whether its bit is set in the mask of changes; None: either."""
    before, after = contents.before_data, contents.data
    if contents.operation == DELETE:
        return [bool(column.key_position) for column in writer_schema.columns]
    if contents.operation == INSERT and after is not None:
        return [
            False if is_large else None if is_null(after.get(name)) else True
            for name, is_large in zip(writer_schema.names, writer_schema.large, strict=True)
        ]
    if contents.operation == UPDATE and after is not None and before is not None:
        return [
            not is_large and after.get(name) != before.get(name)
            for name, is_large in zip(writer_schema.names, writer_schema.large, strict=True)
        ]
    return [None] * len(writer_schema.columns)
