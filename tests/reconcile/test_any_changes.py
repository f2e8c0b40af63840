"""Contradictory changes, in any windows, some repeated: current rows equal those of a plain model.

A database wrote the logs of `test_any_windows`. No database would write these: inserts of existing rows,
updates and deletes of missing rows, snapshots and truncates anywhere, keys that SQL Server may consider
equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from changeledger.model import change
from changeledger.model.contract import Column, Contract
from tests.reconcile.tables import Lake, LedgerRow

CONTRACT = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="nvarchar(9)", ordinal=1, nullable=False, key_position=1),
        Column(name="a", type="int", ordinal=2),
        Column(name="b", type="nvarchar(max)", ordinal=3),
    ),
)
KEYS = ("k", "K", "k ")
AT = datetime(2026, 8, 7, 16)
UNKNOWN = "not known"
OPERATIONS = ("insert", "update", "update", "delete", "snapshot", "move", "truncate")

Rows = dict[str, dict[str, Any]]


def invented(rng: Random, number: int) -> LedgerRow:
    """A change in its own transaction. The server's clock may go back."""
    place = number.to_bytes(2)
    row: LedgerRow = {
        "change_id": str(number), "sort_key": place, "commit_lsn": place * 5, "transaction_id": str(number),
        "committed_at": AT + timedelta(minutes=number - rng.choice((0, 0, 3))), "feed": "feed",
    }  # fmt: skip
    operation, key = rng.choice(OPERATIONS), rng.choice(KEYS)
    if operation == change.TRUNCATE:
        return row | {"operation": operation}
    row |= {"operation": change.UPDATE if operation == "move" else operation, "key": (key,)}
    if operation == "move":
        row["previous_key"] = (rng.choice([other for other in KEYS if other != key]),)
    if operation != change.DELETE:
        row |= _image(rng, "after", key)
    if operation not in {change.INSERT, change.SNAPSHOT}:
        row |= _image(rng, "before", *row.get("previous_key", (key,)))
    return row


def _image(rng: Random, side: str, key: str) -> LedgerRow:
    cells = {"a": rng.choice((None, 1, 2)), "b": rng.choice((None, "x", "y"))}
    unknown = [name for name in cells if rng.random() < 0.25]
    image = (key, *(None if name in unknown else cell for name, cell in cells.items()))
    return {side: image, f"{side}_unknown_columns": dict.fromkeys(unknown, change.UNAVAILABLE) or None}


def expected(rows: Sequence[LedgerRow]) -> Rows:
    """Returns each row's cells, as last known since the row appeared."""
    alive: Rows = {}
    for row in rows:
        if row["operation"] == change.TRUNCATE:
            alive.clear()
            continue
        (key,), (old,) = row["key"], row.get("previous_key", (None,))
        alive.pop(old, None)
        if row["operation"] == change.DELETE:
            alive.pop(key, None)
            continue
        known = {
            name: cell
            for name, cell in zip("ab", row["after"][1:], strict=True)
            if name not in (row["after_unknown_columns"] or {})
        }
        # A row that moves here from another key is not the row that had this key.
        same = {} if old is not None else alive.get(key, {})
        alive[key] = {"a": UNKNOWN, "b": UNKNOWN, **same, **known}
    return alive


def current(lake: Lake) -> Rows:
    return {
        row["id"]: {name: UNKNOWN if name in (row["_unknown_columns"] or {}) else row[name] for name in "ab"}
        for row in lake.shown("current")
    }


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_changes_in_any_windows(seed: int) -> None:
    rng = Random(seed)
    rows = [invented(rng, number) for number in range(rng.randint(2, 12))]
    at_once = Lake(CONTRACT, [rows])
    assert current(at_once) == expected(rows)
    windows: list[list[LedgerRow]] = [[] for _ in range(rng.randint(1, 4))]
    for row in rng.sample(rows, len(rows)):
        rng.choice(windows).append(row)
    windows.append(rng.sample(rows, rng.randint(1, len(rows))))
    assert Lake(CONTRACT, windows).all_shown == at_once.all_shown
