"""Events of one table, as `typed` and `single` both return them; `decode` turns them into canonical changes.

A row's key is also in `pkkey`, which completes an image that lacks key columns. It completes the old image of
an update only if that has some of them, because `pkkey` may be the new key. `{}` and null mean that an image
was not sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from changeledger.kernels import json_text
from changeledger.model.contract import Contract

Text = str | None
Texts = Mapping[str, str | None]
# The value of a member, as text or as written.
_Value = TypeVar("_Value")
INSERT, UPDATE, DELETE = "INS", "UPD", "DEL"
OPERATIONS = (INSERT, UPDATE, DELETE)


class Event(msgspec.Struct, gc=False):
    """The contents of a message, as texts. Images are rows (`ImageLayout.row`), or None."""

    # The number of the message in its batch.
    at: int
    operation: str
    type: str
    logicalid: Text
    time: Text
    commitlsn: Text
    sequencenumber: str | int | None
    committime: Text
    before: Any
    after: Any
    # Whether the old image was sent, and the current one.
    has_old: bool
    has_current: bool
    # Members that the table has no column for.
    unknown: Sequence[str] = ()
    # `pkkey` as a row, if its texts differ from those of the event's image.
    key_beside: Any = None
    # The JSON of `cols`, as received; None if the message does not have it.
    cols: bytes | None = None


class ImageLayout(NamedTuple):
    """The images of one writer schema."""

    # A struct with a text for each column: `f0, f1, ...`; UNSET where it was not sent.
    row: Any
    fields: Sequence[str]
    names: Sequence[str]
    # The contract's names by lower-case name, without those that occur twice.
    spelled: Mapping[str, str]
    # The columns of the key, in lower case, and the fields that hold them.
    key: Sequence[str]
    key_fields: Sequence[str]


@lru_cache(maxsize=64)
def layout_of(writer_schema: Contract) -> ImageLayout:
    names = writer_schema.names
    rename = json_text.renamed(names)
    fields = list(rename)
    row = msgspec.defstruct(
        "Row",
        [(field, str | None | UnsetType, UNSET) for field in fields],
        rename=rename,
        forbid_unknown_fields=True,
        gc=False,
    )
    lower = [name.lower() for name in names]
    spelled = {low: name for low, name in zip(lower, names, strict=True) if lower.count(low) == 1}
    key_fields = [fields[names.index(column.name)] for column in writer_schema.key]
    return ImageLayout(row, fields, names, spelled, [c.name.lower() for c in writer_schema.key], key_fields)


def members(row: Any, rows: ImageLayout) -> dict[str, str | None]:
    """Returns the members of a row that were sent, by the contract's names."""
    cells = {name: getattr(row, field) for name, field in zip(rows.names, rows.fields, strict=True)}
    return {name: text for name, text in cells.items() if text is not UNSET}


def image_before(
    operation: str, old: Mapping[str, _Value], key: Mapping[str, _Value], rows: ImageLayout
) -> Mapping[str, _Value] | None:
    """Returns the members of the before image, or None if there is none."""
    if operation == INSERT or (operation == UPDATE and not old):
        return None
    lacking = _lacking(old, rows)
    if operation == DELETE:
        return {**key, **old} if lacking else old
    return {**key, **old} if 0 < lacking < len(rows.key) else old


def image_after(
    operation: str, current: Mapping[str, _Value], key: Mapping[str, _Value], rows: ImageLayout
) -> Mapping[str, _Value] | None:
    if operation == DELETE or not current:
        return None
    return {**key, **current} if _lacking(current, rows) else current


def _lacking(image: Mapping[str, object], rows: ImageLayout) -> int:
    """Returns how many columns of the key the image lacks."""
    names = {name.lower() for name in image}
    return sum(name not in names for name in rows.key)


def as_row(image: Texts | None, rows: ImageLayout) -> tuple[Any, list[str]]:
    """Returns an image as a row, and its members that are no columns. Names match in any case."""
    if image is None:
        return None, []
    renamed = {rows.spelled.get(name.lower(), name): text for name, text in image.items()}
    by_name = dict(zip(rows.names, rows.fields, strict=True))
    unknown = [name for name in renamed if name not in by_name]
    known = {by_name[name]: text for name, text in renamed.items() if name in by_name}
    return rows.row(**known), unknown
