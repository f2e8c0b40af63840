"""A feed's changes cut into windows in any way, in any order, as often as one likes: the same tables."""

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
# Where a part comes after what follows it, a break that was there till then goes.
ORDERS_OF_PARTS = ("forwards", "backwards", "the middle last", "any")
WINDOWS = 4


def in_parts(found: list[LedgerRow], rng: Random, how: str) -> list[list[LedgerRow]]:
    """Together the parts are all of it; some overlap, and one comes twice."""
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
        found[round(begin * len(found)) : round(end * len(found))]
        for begin, end in (*in_order[how], rng.choice(parts))
    ]


def of_log(log: Log) -> list[LedgerRow]:
    """In order; an update does not always have a cell that it left as it was."""
    found = rows(log, ORDERS, MANNER)
    at_stock = CONTRACT.names.index("stock")
    for at, row in enumerate(found):
        if row["operation"] == "update" and "stock" not in row["changed"] and at % 2:
            row["after"] = tuple(None if n == at_stock else cell for n, cell in enumerate(row["after"]))
            row["after_unknown_columns"] = {"stock": change.UNAVAILABLE}
    return found


def break_some(found: list[LedgerRow], rng: Random, with_truncate: bool) -> None:
    """Wrong values in after images, a change that is lost, perhaps a truncate."""
    at_total = CONTRACT.names.index("total")
    for row in rng.sample([row for row in found if row["after"] is not None], len(found) // 2):
        row["after"] = tuple(None if n == at_total else cell for n, cell in enumerate(row["after"]))
    del found[rng.randrange(len(found))]
    if with_truncate:
        at = rng.randrange(len(found))
        same = {name: found[at][name] for name in ("commit_lsn", "committed_at", "feed")}
        # Behind what stands there.
        place = {"sort_key": found[at]["sort_key"] + b"\xff", "change_id": "truncate"}
        found.insert(at + 1, {**same, **place, "operation": change.TRUNCATE})


@pytest.mark.parametrize("how", ORDERS_OF_PARTS)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), is_faulty=st.booleans())
def test_the_tables_do_not_depend_on_the_windows(how: str, seed: int, is_faulty: bool) -> None:
    rng, log = Random(seed), simulate(seed, 40)
    found = of_log(log)
    if is_faulty:
        break_some(found, rng, with_truncate=rng.random() < 0.5)
    lake, at_once = Lake(CONTRACT), Lake(CONTRACT)
    at_once.carry(found, 0)
    for number, part in enumerate(in_parts(found, rng, how)):
        lake.carry(part, number)
    for name in ("changes", "history", "current", "breaks"):
        assert lake.shown(name) == at_once.shown(name), name
    if not is_faulty:
        assert lake.shown("breaks") == []
        current = {ORDERS.key_of(row): {n: row[n] for n in ORDERS.names} for row in lake.current.values()}
        assert current == log.final_rows(ORDERS)
        assert history(lake) == true_history(log)


def history(lake: Lake) -> Counter[Any]:
    """How often each interval is there: cells, from, to, and whether the row is gone."""
    return Counter(
        (*(row[n] for n in ORDERS.names), row["_valid_from"], row["_valid_to"], row["_is_deleted"])
        for row in lake.shown("history")
    )


def true_history(log: Log) -> Counter[Any]:
    def plain(at: datetime | None) -> datetime | None:
        return None if at is None else at.replace(tzinfo=None)

    return Counter(
        (*(one.row[n] for n in ORDERS.names), plain(one.valid_from), plain(one.valid_to), one.deleted)
        for one in log.history(ORDERS)
    )
