"""Tables whose names differ in case only, as a case-sensitive database can have them.

A feed names a table in any case. Of tables that differ in nothing else it means one: that which it has read
so far, else that of the very name, else the only one. The others are never taken for it (ADR 0028).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from changeledger.model.column_names import shown
from changeledger.model.errors import ConfigError

# The reason of records of another table.
TABLES_ALIKE = "tables_alike"


def meant(table: str, known: str | None, written: Collection[str]) -> str | None:
    """Which of the names that the source writes is the feed's `table`; None if none is certain.

    `known`: the name under which the feed has read it so far, in this window or not.
    """
    if known is not None:
        return known
    if table in written:
        return table
    return next(iter(written)) if len(written) == 1 else None


def several_alike(table: str, names: Iterable[str]) -> ConfigError:
    """Of a feed whose `table` may be one of several."""
    return ConfigError(
        f"{table} may be one of several tables whose names differ in case only: {shown(sorted(names))}",
        f"write the name as the source does. {_ANOTHER}",
    )


def not_meant(name: str, table: str, own: str | None) -> str:
    """Why records of the table `name` are refused, and what to do. `own`: the name that is `table`."""
    if own is None:
        return (
            f"{shown([name])}: several tables of the source have names that differ in case only, and none is "
            f"written as the feed writes it, {table}. Write the name as the source does. {_ANOTHER}"
        )
    return (
        f"{shown([name])} is not {shown([own])}, which the feed reads as {table}: the names differ in case "
        f"only. {_ANOTHER}. If {shown([own])} was renamed, write its new name in the feed"
    )


_ANOTHER = "Give another table a feed of its own, with another `database:`"
