"""Determines which database and table of the source a feed means.

Names of tables can differ by case alone in a case-sensitive database, names of databases on such a server.

A feed may write names in any case. Among names that differ by case alone it means the one that it has read so
far, else the one spelled exactly like it, else the only one. The others are never taken for it (ADR 0028,
ADR 0051).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from changeledger.model.column_names import shown
from changeledger.model.errors import ConfigError

# Share of the messages that must name the same database.
_NEARLY_ALL = 0.9
# Reasons of quarantine: the record is of another table, or of another database.
TABLES_ALIKE, DATABASE_MISMATCH = "tables_alike", "database_mismatch"


def meant(table: str, known: str | None, written: Collection[str]) -> str | None:
    """Returns which name written by the source is the feed's `table`, or None if that is uncertain.

    `known`: the name under which the feed has read the table so far, in this window or before.
    """
    if known is not None:
        return known
    if table in written:
        return table
    return next(iter(written)) if len(written) == 1 else None


def database_meant(
    stated: str | None, feeds: str, known: Iterable[str | None], written: Mapping[str, int]
) -> str | None:
    """Returns which database named in the messages is the feed's, or None if that is uncertain.

    `stated`: the name in messages that the feed states (`database_name:`); `feeds`: the feed's own name of
    the database; `known`: for each table, the database that it has been read from so far; `written`: the
    number of messages by the database that they name.
    """
    so_far = {name for name in known if name is not None}
    if stated is None and len(so_far) == 1:
        return so_far.pop()
    wanted = feeds if stated is None else stated
    alike = {name: count for name, count in written.items() if name.lower() == wanted.lower()}
    if wanted in alike:
        return wanted
    if stated is not None:
        spelled = [name for name in so_far if name.lower() == wanted.lower()]
        if spelled or not alike:
            return spelled[0] if len(spelled) == 1 else stated
    counts = Counter(alike or written)
    ((most, count),) = counts.most_common(1) or [("", 0)]
    # A few damaged messages do not count against the others.
    return most if count and count >= _NEARLY_ALL * counts.total() else None


def not_of_database(name: str, meant: str | None) -> str:
    """Says why records of the database `name` are refused, and what to do. `meant`: the feed's database."""
    others = (
        "the feed's tables have messages of several databases" if meant is None else f"the feed reads {meant}"
    )
    return (
        f"the database is {name}, and {others}: give each database a feed of its own, and state in its "
        "`source:` the `database_name:` that messages have, or `topics:` of that database alone"
    )


def several_alike(table: str, names: Iterable[str]) -> ConfigError:
    """Returns the error for a feed whose `table` may be one of several."""
    return ConfigError(
        f"{table} may be one of several tables whose names differ in case only: {shown(sorted(names))}",
        f"write the name as the source does. {_ANOTHER}",
    )


def not_meant(name: str, table: str, meant_name: str | None) -> str:
    """Says why records of the table `name` are refused, and what to do.

    `meant_name`: the source's name of the feed's `table`; None: uncertain.
    """
    if meant_name is None:
        return (
            f"{shown([name])}: several tables of the source have names that differ in case only, and none is "
            f"written as the feed writes it, {table}. Write the name as the source does. {_ANOTHER}"
        )
    return (
        f"{shown([name])} is not {shown([meant_name])}, which the feed reads as {table}: the names differ in "
        f"case only. {_ANOTHER}. If {shown([meant_name])} was renamed, read it by a new feed"
    )


_ANOTHER = "Give another table a feed of its own, with another `database:`"
