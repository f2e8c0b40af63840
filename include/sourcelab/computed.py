"""A log with a computed column: a snapshot shows its values, but SQL Server's capture stores NULLs."""

from __future__ import annotations

from dataclasses import replace

from sourcelab.log import Change, Log
from sourcelab.tables import Column, Row, Table

NAME = "label"


def with_computed(log: Log, name: str) -> Log:
    """Returns the log with the column `label AS concat(...)` of all others at the end of the named table."""
    old = log.table(name)
    place = max(c.ordinal for c in old.columns) + 1
    table = replace(old, columns=(*old.columns, Column(NAME, "varchar(40)", place, True, computed=True)))

    def captured(change: Change) -> Change:
        if change.table is not old:
            return change
        before, after = (row and _computed(old, row) for row in (change.before, change.after))
        return replace(change, table=table, before=before, after=after)

    tables = tuple(table if t is old else t for t in log.tables)
    transactions = (replace(tx, changes=tuple(map(captured, tx.changes))) for tx in log.transactions)
    return Log(tables, tuple(transactions))


def _computed(table: Table, row: Row) -> Row:
    return row | {NAME: " ".join(str(row[n]) for n in table.names)[:40]}
