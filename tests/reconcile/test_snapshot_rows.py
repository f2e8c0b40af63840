"""A snapshot row begins a version if it differs from the known row of its key."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changeledger.model import change
from tests.key_moves import CONTRACT
from tests.reconcile.tables import Lake, LedgerRow, intervals, rows_of

AT = datetime(2026, 8, 7, 16)
GAP = {"b": change.UNAVAILABLE}
KEY_ALONE = dict.fromkeys("ab", change.NOT_CAPTURED)

# Operation, a, b (`?`: unknown).
Step = tuple[str, int | None, str | None]

# Steps of a key, and the steps that begin a version. Qlik may deliver a full-load row twice. A snapshot row
# begins a version if it has a cell that was unknown, or if the row had been deleted.
CASES: dict[str, tuple[list[Step], list[int]]] = {
    "delivered twice": ([("snapshot", 1, "x"), ("snapshot", 1, "x")], [0]),
    "delivered twice, then changed": ([("snapshot", 1, "x")] * 3 + [("update", 2, "x")], [0, 3]),
    "as it was left": ([("insert", 1, "x"), ("update", 2, "y"), ("snapshot", 2, "y")], [0, 1]),
    "with another value": ([("insert", 1, "x"), ("snapshot", 1, "y"), ("snapshot", 1, "x")], [0, 1, 2]),
    "with NULL": ([("insert", 1, "x"), ("snapshot", 1, None)], [0, 1]),
    "NULL again": ([("insert", 1, None), ("snapshot", 1, None)], [0]),
    "with a cell that was not known": ([("insert", 1, "?"), ("snapshot", 1, "x")], [0, 1]),
    "with NULL in one": ([("insert", 1, "?"), ("snapshot", 1, None)], [0, 1]),
    "without a cell that is known": ([("insert", 1, "x"), ("snapshot", 1, "?")], [0]),
    "of a row that was deleted": (
        [("insert", 1, "x"), ("delete", None, "?"), ("snapshot", 1, "x")],
        [0, 1, 2],
    ),
    "before anything is known": ([("snapshot", 1, "x"), ("insert", 1, "x")], [0, 1]),
}


def rows_for(key: int, steps: Iterable[Step], minutes: int = 1) -> list[LedgerRow]:
    rows = []
    for at, (operation, a, b) in enumerate(steps):
        side = "before" if operation == change.DELETE else "after"
        gaps = KEY_ALONE if operation == change.DELETE else GAP if b == "?" else None
        position = key.to_bytes(8) + at.to_bytes(2)
        row: LedgerRow = {
            "change_id": f"{key}.{at}", "operation": operation, "key": (key,), "feed": "feed",
            side: (key, a, None if b == "?" else b), f"{side}_unknown_columns": gaps,
            "sort_key": position, "commit_lsn": position, "source_position": ("t", 0, at, None),
            "committed_at": AT + timedelta(minutes=at * minutes),
        }  # fmt: skip
        rows.append(row)
    return rows


@pytest.mark.parametrize("name", CASES)
def test_which_rows_begin_a_version(name: str) -> None:
    steps, begins = CASES[name]
    versions = {int(row["_change_id"].split(".")[1]): row for row in intervals(rows_for(1, steps), CONTRACT)}
    assert sorted(versions) == begins
    # Each interval lasts until the next. Only the row that was inserted twice is a break.
    assert [at for at, row in versions.items() if row["_break"] is not None] == (
        [1] if name == "before anything is known" else []
    )


def test_a_version_lasts_until_the_next_one() -> None:
    steps, _ = CASES["delivered twice, then changed"]
    versions = {row["_change_id"]: row for row in intervals(rows_for(1, steps), CONTRACT)}
    assert (versions["1.0"]["_valid_from"], versions["1.0"]["_valid_to"]) == (AT, AT + timedelta(minutes=3))


def test_a_repeated_row_touches_nothing() -> None:
    """In a later window, the ledger receives the row. History and current rows stay as they were."""
    rows = [row for key in range(3) for row in rows_for(key, [("snapshot", key, "x")] * 2)]
    lake = Lake(CONTRACT, [rows[::2]])
    before = rows_of(lake.history), lake.current
    lake.carry(rows[1::2], 1)
    assert (rows_of(lake.history), lake.current) == before
    assert len(lake.current) == 3
    assert len(lake.changes) == 6


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("snapshot", "snapshot", "update", "insert", "delete")),
        st.sampled_from((1, 2)),
        st.sampled_from("xx?"),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=40, deadline=None)
@given(sequences=st.lists(STEPS, min_size=1, max_size=6), seed=st.integers())
def test_whatever_comes_late(sequences: list[list[Step]], seed: int) -> None:
    """Any windows give the same tables as one window.

    A late change may turn a snapshot row that changed nothing into a version, and a version into a row that
    changes nothing.
    """
    rng = Random(seed)
    windows: list[list[LedgerRow]] = [[], [], []]
    for key, steps in enumerate(sequences):
        for row in rows_for(key, [("delete", None, "?") if s[0] == "delete" else s for s in steps]):
            rng.choice(windows).append(row)
    at_once = Lake(CONTRACT, [[row for rows in windows for row in rows]])
    assert Lake(CONTRACT, windows).all_shown == at_once.all_shown
