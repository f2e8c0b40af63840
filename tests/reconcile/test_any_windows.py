"""A feed's changes give the same tables, however they are cut into windows, ordered and repeated."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changeledger.model import change
from sourcelab.log import Log, simulate
from sourcelab.tables import ORDERS
from tests.ledger_rows import Manner, contract_of, rows
from tests.reconcile.tables import Lake, LedgerRow

CONTRACT = contract_of(ORDERS)
MANNER = Manner(parts_key_updates=True, unsent_before=frozenset({"ratio"}))
# A part that arrives after its successor resolves the break that its absence caused.
ORDERS_OF_PARTS = ("forwards", "backwards", "the middle last", "any")
WINDOWS = 4


def in_parts(changes: list[LedgerRow], rng: Random, how: str) -> list[list[LedgerRow]]:
    """Cuts the changes into parts that cover all of them. Some parts overlap, and one is repeated."""
    ends = sorted(rng.uniform(0.2, 0.9) for _ in range(WINDOWS - 2))
    begins = [max(0.0, end - rng.choice((0.0, 0.0, 0.2))) for end in (0.0, *ends)]
    parts = list(zip(begins, [*ends, 1.0], strict=True))
    in_order = {
        "forwards": parts,
        "backwards": parts[::-1],
        "the middle last": [parts[0], *parts[2:], parts[1]],
        "any": rng.sample(parts, len(parts)),
    }
    return [
        changes[round(begin * len(changes)) : round(end * len(changes))]
        for begin, end in (*in_order[how], rng.choice(parts))
    ]


def of_log(log: Log, feed: str = "feed") -> list[LedgerRow]:
    """Returns the log's changes in order. Every second update lacks an unchanged cell."""
    changes = rows(log, ORDERS, MANNER, feed)
    at_stock = CONTRACT.names.index("stock")
    for at, row in enumerate(changes):
        if row["operation"] == "update" and "stock" not in row["changed"] and at % 2:
            row["after"] = tuple(None if n == at_stock else cell for n, cell in enumerate(row["after"]))
            row["after_unknown_columns"] = {"stock": change.UNAVAILABLE}
    return changes


def break_some(changes: list[LedgerRow], rng: Random, with_truncate: bool) -> None:
    """Puts wrong values into after images, loses a change, and adds a truncate if `with_truncate`."""
    at_total = CONTRACT.names.index("total")
    for row in rng.sample([row for row in changes if row["after"] is not None], len(changes) // 2):
        row["after"] = tuple(None if n == at_total else cell for n, cell in enumerate(row["after"]))
    del changes[rng.randrange(len(changes))]
    if with_truncate:
        at = rng.randrange(len(changes))
        same = {name: changes[at][name] for name in ("commit_lsn", "committed_at", "feed")}
        # Right after that change.
        place = {"sort_key": changes[at]["sort_key"] + b"\xff", "change_id": "truncate"}
        changes.insert(at + 1, {**same, **place, "operation": change.TRUNCATE})


@pytest.mark.parametrize("how", ORDERS_OF_PARTS)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), is_faulty=st.booleans())
def test_the_tables_do_not_depend_on_the_windows(how: str, seed: int, is_faulty: bool) -> None:
    rng, log = Random(seed), simulate(seed, 40)
    changes = of_log(log)
    if is_faulty:
        break_some(changes, rng, with_truncate=rng.random() < 0.5)
    lake = Lake(CONTRACT, in_parts(changes, rng, how))
    assert lake.all_shown == Lake(CONTRACT, [changes]).all_shown
    if not is_faulty:
        assert lake.shown("breaks") == []
        assert_true(lake.shown("current"), lake.shown("history"), log)


def assert_true(current: list[dict[str, Any]], history: list[dict[str, Any]], log: Log) -> None:
    """Asserts the cells of current rows; and cells, begin and end of intervals, and which are deleted."""
    cells = {ORDERS.key_of(row): {n: row[n] for n in ORDERS.names} for row in current}
    assert cells == log.final_rows(ORDERS)

    def plain(at: datetime | None) -> datetime | None:
        return None if at is None else at.replace(tzinfo=None)

    intervals = Counter(
        (*(row[n] for n in ORDERS.names), row["_valid_from"], row["_valid_to"], row["_is_deleted"])
        for row in history
    )
    assert intervals == Counter(
        (*(i.row[n] for n in ORDERS.names), plain(i.valid_from), plain(i.valid_to), i.deleted)
        for i in log.history(ORDERS)
    )
