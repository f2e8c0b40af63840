"""The image chain behind a snapshot row: the row may show changes that come after it in the log.

Debezium takes a snapshot's position first and then reads the tables, one after the other; the position is the
end of what SQL Server has captured, which lags behind its tables (apache/flink-cdc#2853,
MaterializeInc/materialize#32979). The log has what was committed in between once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from changeledger.model import change
from tests.key_moves import CONTRACT
from tests.reconcile.tables import Lake, LedgerRow

READ = datetime(2026, 8, 7, 16, 25)
# Operation, value of `a` before and after it, minutes after the row was read.
Step = tuple[str, int | None, int | None, int]

# What the log has behind the position of a snapshot row whose `a` is 5.
SHOWN: dict[str, list[Step]] = {
    "the insert": [("insert", None, 5, -1), ("update", 5, 6, 1)],
    "an update": [("update", 4, 5, -1), ("update", 5, 6, 1)],
    "an update of the moment in which the row was read": [("update", 4, 5, 0)],
    "several updates": [("update", 3, 4, -2), ("update", 4, 5, -1), ("delete", 5, None, 1)],
    "a delete, and an insert": [("delete", 4, None, -2), ("insert", None, 5, -1), ("update", 5, 6, 1)],
    "a move from another key": [("move", 5, 5, -1), ("update", 5, 6, 1)],
}
CONTINUED: dict[str, tuple[list[Step], str]] = {
    "an insert": ([("insert", None, 5, 1)], "row_was_there"),
    "an update of another value": ([("update", 4, 5, 1)], "cells_differ"),
    "a delete of another value": ([("delete", 4, None, 1)], "cells_differ"),
    # The first update is missing: what was committed before the reading does not lead to what comes later.
    "an update, but not the one before it": ([("update", 2, 3, -1), ("update", 4, 6, 1)], "cells_differ"),
}


def rows_for(steps: Sequence[Step]) -> list[LedgerRow]:
    rows = []
    for at, (operation, before, after, minutes) in enumerate([("snapshot", None, 5, 0), *steps]):
        row: LedgerRow = {
            "change_id": str(at), "operation": change.UPDATE if operation == "move" else operation,
            "key": (1,), "sort_key": bytes([at]), "commit_lsn": bytes([at]), "feed": "feed",
            "committed_at": READ + timedelta(minutes=minutes),
        }  # fmt: skip
        row |= {side: (1, a, None) for side, a in (("before", before), ("after", after)) if a is not None}
        rows.append(row | ({"previous_key": (2,)} if operation == "move" else {}))
    return rows


def breaks(steps: Sequence[Step], size: int) -> list[tuple[str, str]]:
    """Returns the changes at breaks, and the kinds. `size`: of the windows in which the rows arrive."""
    rows = rows_for(steps)
    lake = Lake(CONTRACT, [rows[at : at + size] for at in range(0, len(rows), size)])
    return [(row["change_id"], row["kind"]) for row in lake.shown("breaks")]


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize("name", SHOWN)
def test_what_was_committed_before_the_row_was_read_is_no_break(name: str, size: int) -> None:
    assert breaks(SHOWN[name], size) == []


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize("name", CONTINUED)
def test_what_was_committed_later_continues_the_row(name: str, size: int) -> None:
    steps, kind = CONTINUED[name]
    assert breaks(steps, size) == [(str(len(steps)), kind)]
