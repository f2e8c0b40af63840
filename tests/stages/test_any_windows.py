"""The tables are the same however a feed's changes are cut into windows, ordered and repeated.

The tests use real tables and the real reconcile stage, without the stages before it and without the audit.
Several logs are written as one, each cut in its own way, because a run costs the same for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from random import Random, SystemRandom
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sourcelab.log import simulate
from tests.feeds import feed_of
from tests.ledger_rows import apart, joined
from tests.ledger_windows import carry, rows_of
from tests.reconcile.test_any_windows import (
    CONTRACT,
    ORDERS_OF_PARTS,
    assert_true,
    break_some,
    in_parts,
    of_log,
)

# The first logs are faulty, the others correct: a truncate ends rows of all earlier logs.
FAULTY = len(ORDERS_OF_PARTS)


@pytest.mark.long
def test_the_tables_do_not_depend_on_the_windows(spark: SparkSession) -> None:
    """Each run draws another seed, which a failure shows.

    There is time for only one, and hypothesis would begin with the simplest: all logs equal, cut at the same
    place.
    """
    seed = SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    rng = Random(seed)
    logs = [apart(simulate(rng.randrange(10**6), 40), number) for number in range(2 * FAULTY)]
    rows = [of_log(log, f"{number}") for number, log in enumerate(logs)]
    for number in range(FAULTY):
        break_some(rows[number], rng, with_truncate=number == 1)
    parts = [in_parts(of, rng, how) for of, how in zip(rows, ORDERS_OF_PARTS * 2, strict=True)]
    at_once, cut = (feed_of(f"any_windows_{name}", CONTRACT.table) for name in ("at_once", "cut"))
    carry(spark, at_once, CONTRACT, list(chain(*rows)), 0)
    for number, part in enumerate(zip(*parts, strict=True)):
        carry(spark, cut, CONTRACT, list(chain(*part)), number)
    for name in ("sales_orders_changes", "sales_orders_history", "sales_orders", "image_chain_breaks"):
        assert rows_of(cut, name) == rows_of(at_once, name), name
    broken = {log_of(json.loads(row["key"])) for row in rows_of(cut, "image_chain_breaks")}
    assert broken == set(range(FAULTY))
    current, history = (
        [row for row in rows_of(cut, name) if log_of(row) >= FAULTY]
        for name in ("sales_orders", "sales_orders_history")
    )
    assert_true(current, history, joined(logs[FAULTY:]))


def log_of(row: Mapping[str, Any]) -> int:
    """Returns the number of the log that a row or key belongs to (`ledger_rows.apart`)."""
    return (int(row["order_no"]) - 2**53) // 10**6
