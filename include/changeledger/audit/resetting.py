"""The rules on what a reset must not lose: its new tables are compared with the published ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from changeledger.audit.rules import Rule, Sum

READS_EVERYTHING = "reset_reads_everything_again"
KEEPS_ROWS = "reset_keeps_rows"


@dataclass(frozen=True)
class Replaced:
    """What is published of one table, and what of it the new tables lack.

    `unread`: published changes that are not read again, `repairs` of them by `verify`. `gone`: published rows
    whose key the new history does not know. `less_known`: rows with a column that was known and is not now.
    `examples`: keys.
    """

    table: str
    changes: int
    unread: int
    repairs: int
    rows: int
    gone: int
    less_known: int
    examples: Sequence[str]


def reset_rules(tables: Sequence[Replaced], *, accepts_gap: bool) -> list[Rule]:
    """Returns the rules. `accepts_gap`: a person knows that the source lacks records which the feed read."""
    return [
        Rule(
            READS_EVERYTHING,
            "change_id",
            "A reset reads every published change again. Changes that the source no longer has stay readable "
            "by the tag of the release before the reset.",
            "warning" if accepts_gap else "error",
            tuple(_unread(table) for table in tables),
        ),
        Rule(
            KEEPS_ROWS,
            "key",
            "After a reset every published row is still known, as a row or as a deleted one, and so is every "
            "column value that was known.",
            "error",
            tuple(_gone(table) for table in tables),
        ),
    ]


def _unread(table: Replaced) -> Sum:
    repairs = f", {table.repairs:,} of them repairs of `verify`" if table.repairs else ""
    why = f"{table.unread:,} of {table.changes:,} published changes are not read again{repairs}"
    return Sum(table.table, table.unread, why)


def _gone(table: Replaced) -> Sum:
    why = (
        f"of {table.rows:,} published rows {table.gone:,} would be gone and {table.less_known:,} would lose "
        "a column's value"
    )
    examples = f": {', '.join(table.examples)}" if table.examples else ""
    return Sum(table.table, table.gone + table.less_known, why + examples)
