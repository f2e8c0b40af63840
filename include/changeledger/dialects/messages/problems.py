"""Problems: the reasons why a record cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

import numpy as np

from changeledger.dialects.messages.message_rows import Outcome
from changeledger.kernels.arrow import Bools
from changeledger.model import change
from changeledger.model.column_names import folded, shown
from changeledger.model.contract import Column, Contract

LONGEST_DETAIL = 500
LONE_SURROGATE = ("lone_surrogate", "an escape \\ud8.. to \\udf.. is half of a surrogate pair")


class Problem(Exception):
    """Raised for a record that is quarantined, with a reason and the first 500 characters of a detail."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.outcome = Outcome(change.QUARANTINED, reason, detail[:LONGEST_DETAIL])


def no_columns(table: str, members: Iterable[str], columns: Iterable[str]) -> Problem:
    """Returns the problem of an image with members that are no columns of its table."""
    known = {folded(name): name for name in columns}
    unknown = list(members)
    alike = [name for name in unknown if folded(name) in known]
    if alike:
        return columns_alike(table, [known[folded(alike[0])], alike[0]])
    return Problem("unknown_column", f"{table} has no column {shown(unknown)}")


def columns_alike(table: str, names: Iterable[str]) -> Problem:
    """Returns the problem of a table with columns that the lake cannot distinguish."""
    what = f"columns of {table} whose names differ in case only: {shown(names)}"
    return Problem(
        "columns_alike",
        f"{what}. The lake cannot distinguish them: leave one out of the capture, or rename it in the source",
    )


def incomplete(image: str, columns: Iterable[str], says: str) -> Problem:
    """Returns the problem of an image that lacks columns which the message has elsewhere.

    `image`: the image that lacks them. `says`: what has them.
    """
    return Problem("incomplete_image", f"{image} lacks {shown(columns)}, which {says}")


def of_columns(
    unknown: Iterable[Sequence[str]], unfit: Iterable[Bools], columns: Contract
) -> Iterator[tuple[int, Problem]]:
    """Yields the problems of events with unknown columns, then of those with values that do not fit.

    `unknown`: each event's members that are no columns. `unfit`: for each image, a row per event that says
    whether the value of each column does not fit.
    """
    for number, members in enumerate(unknown):
        if members:
            yield number, no_columns(columns.table, members, columns.names)
    for of_image in unfit:
        for number in np.flatnonzero(of_image.any(axis=1)).tolist():
            bad = compress(columns.columns, of_image[number])
            yield number, Problem("value_does_not_fit", no_value_of(bad))


def no_value_of(columns: Iterable[Column]) -> str:
    """Returns the detail for values that do not fit their columns' types."""
    return f"values that do not fit: {', '.join(f'{column.name} {column.type}' for column in columns)}"


def named(name: str, value: object) -> str:
    """Returns `name is value` for a detail."""
    return f"{name} is {'missing' if value is None else value}"
