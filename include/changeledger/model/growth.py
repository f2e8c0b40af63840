"""What a column becomes when a writer has another type for it, and where that is none that rows can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from changeledger.model.column_names import shown
from changeledger.model.errors import ContractError
from changeledger.model.sql_type import holds

if TYPE_CHECKING:
    from changeledger.model.contract import Column


def grown(table: str, old: Column, new: Column) -> Column:
    """The newer column in the wider of the two types, under the name that the lake has.

    A max type is wider than others: a record that was written in it may lack the value
    (`Contract.as_large_as`). Raises ContractError where the values of one type do not all fit the other.
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
    """Is each value that was written in the one type one of the column's, as it is?"""
    if column.spark_type == written.spark_type:
        return not _means_else(written, column)
    return holds(column.spark_type, written.spark_type)


def _means_else(old: Column, new: Column) -> bool:
    """Is a time of day, a moment, one with its offset or a GUID another one of these now?

    They are text in the lake. SQL Server converts the rows that are there, of which no change tells.
    """
    was, becomes = (c.sql_type.text_form for c in (old, new))
    if was is None or becomes is None:
        return False
    return was[0] != becomes[0] and "padded" not in {was[0], becomes[0]}


def require_same_text(table: str, old: Column, new: Column) -> None:
    """Raises ContractError where a column of the key has its values in another text than before.

    Each published row would stay beside the one that its next change makes under the new text.
    """
    if old.spark_type == new.spark_type and _has_other_text(old, new):
        raise ContractError(
            f"{table}.{shown([old.name])}, of the key, changed its type from {old.type} to {new.type}: "
            "the text of its values is another one",
            f"publish the table as a new feed whose `columns:` state {new.type}",
        )


def _has_other_text(old: Column, new: Column) -> bool:
    """Other text is `abc` in a `varchar(5)` that becomes a `char(5)`, or a GUID in small letters.

    SQL Server converts values to text of no form as the lake has them, but for a `datetimeoffset`. Text of
    which nobody says how long it is may be of the new type already: a message names it for the first time.
    """
    was, becomes = (c.sql_type.text_form for c in (old, new))
    if becomes is None:
        return was is not None and was[0] == "datetimeoffset"
    return not (old.is_large or not old.length_stated) if was is None else was != becomes


def wider(column: Column, other: Column) -> str | None:
    """The type that holds the values of both, as they are; None: neither does."""
    if column.type == other.type:
        return column.type
    for wide, narrow in ((column, other), (other, column)):
        # A real as a double is another number, and Spark has no tinyint.
        is_wide = wide.spark_type != "double" and wide.sql_type.base != "tinyint"
        if is_wide and holds(wide.spark_type, narrow.spark_type):
            return wide.type
    return None
