"""A snapshot row may be read at any time. It delays no later change, in whatever windows they arrive."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import permutations

import pytest

from changeledger.model import change
from tests.key_moves import CONTRACT
from tests.reconcile.tables import Lake, LedgerRow, intervals

AT = datetime(2026, 8, 7, 10)
LOADED = "loaded"
# Operation, value, minutes after AT at which it was committed or read. A loaded row is a snapshot row without
# a position.
Step = tuple[str, int | None, int]

# Steps in the order of their positions, and the minutes at which their intervals begin.
CASES: dict[str, tuple[list[Step], list[int]]] = {
    "a reload, hours after the changes": (
        [(LOADED, 2, 120), ("insert", 1, 0), ("update", 2, 30)],
        [0, 0, 30],
    ),
    "changed while it was loaded": (
        [(LOADED, 1, 60), ("update", 2, 40), ("update", 3, 90)],
        [40, 40, 90],
    ),
    "deleted while it was loaded": ([(LOADED, 1, 60), ("delete", None, 40)], [40, 40]),
    "loaded before it was changed": ([(LOADED, 1, 0), ("update", 2, 40)], [0, 40]),
    "loaded twice": ([(LOADED, 1, 45), (LOADED, 2, 60), ("update", 3, 40)], [40, 40, 40]),
    "loaded twice, the clock put back, then changed": (
        [(LOADED, 1, 70), (LOADED, 2, 60), ("update", 3, 100)],
        [70, 70, 100],
    ),
    "loaded twice, changed twice": (
        [(LOADED, 1, 70), (LOADED, 2, 90), ("update", 3, 85), ("update", 4, 80)],
        [70, 85, 85, 85],
    ),
    "loaded only": ([(LOADED, 1, 0), (LOADED, 2, 60)], [0, 60]),
    "a clock that was put back": ([("insert", 1, 60), ("update", 2, 40)], [60, 60]),
    "a clock that was put back behind a load": (
        [(LOADED, 1, 90), ("update", 2, 60), ("update", 3, 40)],
        [60, 60, 60],
    ),
    "read while it was changed": (
        [("insert", 1, 0), ("snapshot", 2, 60), ("update", 3, 40), ("update", 4, 70)],
        [0, 40, 40, 70],
    ),
    "read twice while it was changed": (
        [("insert", 1, 0), ("snapshot", 2, 60), ("snapshot", 3, 70), ("update", 4, 40)],
        [0, 40, 40, 40],
    ),
}


def rows(steps: list[Step]) -> list[LedgerRow]:
    changes: list[LedgerRow] = []
    for at, (operation, value, minutes) in enumerate(steps):
        side = "before" if operation == change.DELETE else "after"
        position = bytes([operation != LOADED, *bytes(8), at])
        changes.append(
            {
                "change_id": str(at), "operation": "snapshot" if operation == LOADED else operation,
                "key": (1,), "feed": "feed", side: (1, value, "x"), "sort_key": position,
                "commit_lsn": None if operation == LOADED else position,
                "committed_at": AT + timedelta(minutes=minutes),
            }
        )  # fmt: skip
        if operation == change.DELETE:
            changes[-1]["before_unknown_columns"] = {"a": change.NOT_CAPTURED}
    return changes


@pytest.mark.parametrize("name", CASES)
def test_a_load_takes_no_time_from_changes(name: str) -> None:
    steps, begins = CASES[name]
    by_change = {row["_change_id"]: row for row in intervals(rows(steps), CONTRACT)}
    assert [by_change[str(at)]["_valid_from"] for at in range(len(steps))] == [
        AT + timedelta(minutes=minutes) for minutes in begins
    ]


@pytest.mark.parametrize("name", CASES)
def test_in_whatever_windows_they_come(name: str) -> None:
    changes = rows(CASES[name][0])
    at_once = Lake(CONTRACT, [changes]).all_shown
    for order in permutations(range(len(changes))):
        assert Lake(CONTRACT, ([changes[at]] for at in order)).all_shown == at_once, order
