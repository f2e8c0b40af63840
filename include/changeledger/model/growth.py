"""How a column's type changes when a writer has another type for it, and which changes are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from changeledger.model.column_names import shown
from changeledger.model.errors import ContractError
from changeledger.model.sql_type import holds

if TYPE_CHECKING:
    from changeledger.model.contract import Column


def grown(table: str, old: Column, new: Column) -> Column:
    """Returns the newer column in the wider of the two types, under the name in the lake.

    A max type is wider than others: a record that was written with it may lack the value
    (`Contract.as_large_as`). Raises ContractError if neither type holds all values of the other.
    """
    was_large = old.length_stated and old.sql_type.is_large
    column = new.model_copy(update={"name": old.name, "large_object": old.large_object or new.large_object})
    is_same = old.spark_type == new.spark_type and not _means_else(old, new)
    if is_same and was_large and not new.is_large:
        return column.model_copy(update={"type": old.type})
    if is_same or holds(new.spark_type, old.spark_type):
        return column
    if holds(old.spark_type, new.spark_type):
        return column.model_copy(update={"type": old.type})
    raise ContractError(
        f"{table}.{shown([old.name])} changed its type from {old.type} to {new.type}",
        f"publish the table as a new feed whose `columns:` state {new.type}; or state {old.type} here, if "
        "the new values fit it",
    )


def takes(column: Column, written: Column) -> bool:
    """Returns whether the column's type holds each value of the type of `written`, unchanged."""
    if column.spark_type == written.spark_type:
        return not _means_else(written, column)
    return holds(column.spark_type, written.spark_type)


def _means_else(old: Column, new: Column) -> bool:
    """Returns whether one of `time`, `datetime2(7)`, `datetimeoffset`, `uniqueidentifier` became another one.

    All of them are text in the lake. SQL Server converts the existing rows without recording changes.
    """
    was, becomes = (c.sql_type.text_form for c in (old, new))
    if was is None or becomes is None:
        return False
    return was[0] != becomes[0] and "padded" not in {was[0], becomes[0]}


def require_same_text(table: str, old: Column, new: Column) -> None:
    """Raises ContractError if the values of a key column now have another text than before.

    Otherwise each published row would stay beside the row that its next change adds under the new text.
    """
    if old.spark_type == new.spark_type and _has_other_text(old, new):
        raise ContractError(
            f"{table}.{shown([old.name])}, a key column, changed its type from {old.type} to {new.type}, "
            "which changes the text of its values",
            f"publish the table as a new feed whose `columns:` state {new.type}",
        )


def _has_other_text(old: Column, new: Column) -> bool:
    """Returns whether the lake's text of the values changes.

    Examples: `abc` in a `varchar(5)` that becomes a `char(5)`, or a GUID in lower case.

    A conversion to plain text in SQL Server gives the text that the lake has, except for `datetimeoffset`.
    Text of unstated length may have been of the new type already, if a message names it for the first time.
    """
    was, becomes = (c.sql_type.text_form for c in (old, new))
    if becomes is None:
        return was is not None and was[0] == "datetimeoffset"
    return not (old.is_large or not old.length_stated) if was is None else was != becomes


def wider(column: Column, other: Column) -> str | None:
    """Returns the type that holds the values of both columns unchanged, or None if neither does."""
    if column.type == other.type:
        return column.type
    for wide, narrow in ((column, other), (other, column)):
        # A real becomes another number as a double, and Spark has no tinyint.
        is_wide = wide.spark_type != "double" and wide.sql_type.base != "tinyint"
        if is_wide and holds(wide.spark_type, narrow.spark_type):
            return wide.type
    return None
