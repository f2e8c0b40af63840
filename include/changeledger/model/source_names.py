"""Which database and table of the source a feed means, by their names.

Names of tables may differ in case only in a case-sensitive database, names of databases on such a server.

A feed names either in any case. Of those that differ in nothing else it means one: that which it has read so
far, else that of the very name, else the only one. The others are never taken for it (ADR 0028, ADR 0051).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from changeledger.model.column_names import shown
from changeledger.model.errors import ConfigError

# Of the messages that name a database.
_NEARLY_ALL = 0.9
# The reasons of records of another table, and of another database.
TABLES_ALIKE, DATABASE_MISMATCH = "tables_alike", "database_mismatch"


def meant(table: str, known: str | None, written: Collection[str]) -> str | None:
    """Which of the names that the source writes is the feed's `table`; None if none is certain.

    `known`: the name under which the feed has read it so far, in this window or not.
    """
    if known is not None:
        return known
    if table in written:
        return table
    return next(iter(written)) if len(written) == 1 else None


def database_meant(
    stated: str | None, feeds: str, known: Iterable[str | None], written: Mapping[str, int]
) -> str | None:
    """Which of the databases that messages name is the feed's; None if none is certain.

    `stated`: what the feed says that they call it; `feeds`: the feed's own name of it; `known`: the one of
    which each of its tables has been read so far; `written`: how many messages name each.
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
    # A few damaged messages say nothing of the others.
    return most if count and count >= _NEARLY_ALL * counts.total() else None


def not_of_database(name: str, meant: str | None) -> str:
    """Why records of the database `name` are refused, and what to do. `meant`: the feed's."""
    others = "the feed's tables have messages of others" if meant is None else f"the feed reads {meant}"
    return (
        f"the database is {name}, and {others}: give each database a feed of its own, and state in its "
        "`source:` the `database_name:` that messages have, or `topics:` of that database alone"
    )


def several_alike(table: str, names: Iterable[str]) -> ConfigError:
    """Of a feed whose `table` may be one of several."""
    return ConfigError(
        f"{table} may be one of several tables whose names differ in case only: {shown(sorted(names))}",
        f"write the name as the source does. {_ANOTHER}",
    )


def not_meant(name: str, table: str, meant_name: str | None) -> str:
    """Why records of the table `name` are refused, and what to do. `meant_name`: the name that is `table`."""
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
