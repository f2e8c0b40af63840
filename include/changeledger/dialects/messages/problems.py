"""Why a record cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from changeledger.dialects.messages.message_rows import Outcome
from changeledger.model import change
from changeledger.model.column_names import folded, shown
from changeledger.model.contract import Column

LONGEST_DETAIL = 500
LONE_SURROGATE = ("lone_surrogate", "an escape \\ud8.. to \\udf.. is half of a surrogate pair")


class Problem(Exception):
    """A record is quarantined: for what reason, and a detail of which 500 characters are kept."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.outcome = Outcome(change.QUARANTINED, reason, detail[:LONGEST_DETAIL])


def no_columns(table: str, members: Iterable[str], columns: Iterable[str]) -> Problem:
    """An image has members that are no columns of its table."""
    known = {folded(name): name for name in columns}
    unknown = list(members)
    alike = [name for name in unknown if folded(name) in known]
    if alike:
        return columns_alike(table, [known[folded(alike[0])], alike[0]])
    return Problem("unknown_column", f"{table} has no column {shown(unknown)}")


def columns_alike(table: str, names: Iterable[str]) -> Problem:
    """A table has columns that the lake cannot distinguish."""
    what = f"columns of {table} whose names differ in case only: {shown(names)}"
    return Problem(
        "columns_alike",
        f"{what}. The lake cannot distinguish them: leave one out of the capture, or rename it in the source",
    )


def incomplete(image: str, columns: Iterable[str], says: str) -> Problem:
    """An image lacks columns that the message has elsewhere. `image`: the one that lacks
    them; `says`: what has them."""
    return Problem("incomplete_image", f"{image} lacks {shown(columns)}, which {says}")


def misfits(columns: Sequence[Column], unfit: Iterable[bool]) -> Problem | None:
    """What is wrong with an image; None: all values fit. `unfit`: whose value does not, column by column."""
    bad = [column for column, is_bad in zip(columns, unfit, strict=True) if is_bad]
    return Problem("value_does_not_fit", no_value_of(bad)) if bad else None


def no_value_of(columns: Iterable[Column]) -> str:
    """The detail of values that are none of their columns' types."""
    return f"no value of {', '.join(f'{column.name} {column.type}' for column in columns)}"


def named(name: str, value: object) -> str:
    """`name is value`, for a detail."""
    return f"{name} is {'missing' if value is None else value}"
