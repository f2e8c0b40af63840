"""Events of one table, as `typed` and `single` both return them; `decode` turns them into changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from changeledger.dialects.qlik_messages.values import Cell, cell_of, is_null
from changeledger.kernels import json_text
from changeledger.kernels.json_text import Members, Token
from changeledger.model import change
from changeledger.model.contract import Column, Contract

Text = str | None
INSERT, UPDATE, DELETE, REFRESH = "INSERT", "UPDATE", "DELETE", "REFRESH"
OPERATIONS: Mapping[str, str] = {
    INSERT: change.INSERT,
    UPDATE: change.UPDATE,
    DELETE: change.DELETE,
    REFRESH: change.SNAPSHOT,
}
# What a message has in `headers` besides its operation, in the order of an event's fields.
HEADERS = (
    "changeSequence", "timestamp", "streamPosition", "transactionId", "changeMask", "columnMask",
    "transactionEventCounter",
)  # fmt: skip


class Event(msgspec.Struct, gc=False):
    """The contents of a message. Images are rows (`ImageLayout.row`), or None. A full load has no headers."""

    # The number of the message in its batch.
    at: int
    operation: str
    sequence: Text
    timestamp: str | int | None
    position: Text
    transaction: Text
    change_mask: Text
    column_mask: Text
    counter: str | int | None
    before: Any
    after: Any
    # Members that the table has no column for.
    unknown: Sequence[str] = ()


class ImageLayout(NamedTuple):
    """The images of one writer schema."""

    # A struct with a cell for each column: `f0, f1, ...`; UNSET where the message has no such member.
    row: Any
    cells: Sequence[Cell]
    fields: Mapping[str, str]
    # The numbers of the columns of the key, in the columns' order.
    keys: Sequence[int]


@lru_cache(maxsize=64)
def layout_of(writer_schema: Contract) -> ImageLayout:
    cells = [cell_of(column) for column in writer_schema.columns]
    rename = json_text.renamed(writer_schema.names)
    fields = dict(zip(writer_schema.names, rename, strict=True))
    row = msgspec.defstruct(
        "Row",
        [(field, cell.wire, UNSET) for field, cell in zip(fields.values(), cells, strict=True)],
        rename=rename,
        forbid_unknown_fields=True,
        gc=False,
    )
    keys = [at for at, column in enumerate(writer_schema.columns) if column.key_position]
    return ImageLayout(row, cells, fields, keys)


def as_row(image: Members | None, rows: ImageLayout) -> tuple[Any, list[str]]:
    """Returns an image as a row, and its members that are no columns."""
    if image is None:
        return None, []
    unknown = [name for name in image if name not in rows.fields]
    known: dict[str, Any] = {}
    for (name, field), cell in zip(rows.fields.items(), rows.cells, strict=True):
        if name in image:
            known[field] = image[name] if cell.is_raw else _cell(image[name], cell)
    return rows.row(**known), unknown


def _cell(token: Token, cell: Cell) -> Any:
    """Returns the value as its column accepts it from JSON, else its text."""
    try:
        return msgspec.json.decode(token, type=cell.wire)
    except json_text.UNREADABLE:
        return json_text.text(token)


def misfits(image: Members | None, columns: Sequence[Column]) -> list[Column]:
    """Returns those of the columns whose member has a JSON type that Qlik never writes for them.

    Nothing says which text an object or an array was, nor whether the digits of a number are hex.
    """
    if image is None:
        return []
    return [
        column
        for column in columns
        if (token := image.get(column.name)) is not None
        and (json_text.is_nested(token) or (column.spark_type == "binary" and json_text.is_unquoted(token)))
    ]


def is_unsaid(before: Any, rows: ImageLayout) -> bool:
    """Returns whether an update's before image was not sent: no member, or no value where rows have a key."""
    if before is None or not is_empty(before, rows):
        return False
    return bool(rows.keys) or all(getattr(before, field) is UNSET for field in rows.fields.values())


def is_empty(row: Any, rows: ImageLayout) -> bool:
    """Returns whether a row has no value at all."""
    return all(is_null(getattr(row, field)) for field in rows.fields.values())
