"""The tables are the same however a feed's changes are cut into windows, ordered and repeated.

The tests use real tables and the real reconcile stage, without the stages before it and without the audit.
Several logs are written as one, each cut in its own way, because a run costs the same for all of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain, count
from random import Random, SystemRandom
from typing import Any, NamedTuple

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from changeledger.config.feed import Feed
from changeledger.model import change
from sourcelab.log import Log, simulate
from sourcelab.tables import ORDERS
from tests.ledger_windows import LedgerRow, carry, feed_of, rows_of
from tests.ledgers import Manner, apart, contract_of, joined, ledger

CONTRACT = contract_of(ORDERS)
MANNER = Manner(parts_key_updates=True, unsent_before=frozenset({"ratio"}))
# The first logs are faulty, the others correct: a truncate ends rows of all earlier logs.
FAULTY = 4
# If a part comes after the one that follows it, a break that existed until then is resolved.
ORDERS_OF_PARTS = ("forwards", "backwards", "the middle last", "any") * 2
WINDOWS = 4
NUMBERS = count()

# Begin and end of a part, as shares of all rows in the source's order.
Part = tuple[float, float]


class Reported(NamedTuple):
    """A log's seed, and the parts of it that the windows have, in the order in which they run."""

    seed: int
    parts: Sequence[Part]


def sent_in_parts(rng: Random, how: str) -> Reported:
    """The parts together make up the whole log. Some overlap, and one comes twice."""
    ends = sorted(rng.uniform(0.2, 0.9) for _ in range(WINDOWS - 2))
    begins = [max(0.0, end - rng.choice((0.0, 0.0, 0.2))) for end in (0.0, *ends)]
    parts = list(zip(begins, [*ends, 1.0], strict=True))
    in_order = {
        "forwards": parts,
        "backwards": parts[::-1],
        "the middle last": [parts[0], *parts[2:], parts[1]],
        "any": rng.sample(parts, len(parts)),
    }
    return Reported(rng.randrange(10**6), [*in_order[how], rng.choice(parts)])


@pytest.mark.long
def test_the_tables_do_not_depend_on_the_windows(spark: SparkSession) -> None:
    """Each run draws another seed, which a failure shows.

    There is time for only one, and hypothesis would begin with the simplest: all logs equal, cut at the same
    place.
    """
    seed = SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    rng = Random(seed)
    reported = [sent_in_parts(rng, how) for how in ORDERS_OF_PARTS]
    logs = [apart(simulate(sent.seed, 40), number) for number, sent in enumerate(reported)]
    rows = [ledger_rows(spark, log, number) for number, log in enumerate(logs)]
    spoil(rows[:FAULTY], rng)
    at_once, in_parts = (feed_of(f"any_windows_{next(NUMBERS)}", CONTRACT) for _ in range(2))
    carry(spark, at_once, CONTRACT, list(chain(*rows)), 0)
    for number in range(WINDOWS):
        parts = [_cut(by_log, sent.parts[number]) for by_log, sent in zip(rows, reported, strict=True)]
        carry(spark, in_parts, CONTRACT, list(chain(*parts)), number)
    for name in ("sales_orders_changes", "sales_orders_history", "sales_orders", "image_chain_breaks"):
        assert rows_of(in_parts, name) == rows_of(at_once, name), name
    assert {log_of(json.loads(row["key"])) for row in rows_of(in_parts, "image_chain_breaks")} == set(
        range(FAULTY)
    )
    right = joined(logs[FAULTY:])
    assert current(in_parts) == right.final_rows(ORDERS)
    assert history(spark, in_parts) == true_history(right)


def _cut(rows: list[LedgerRow], part: Part) -> list[LedgerRow]:
    return rows[round(part[0] * len(rows)) : round(part[1] * len(rows))]


def ledger_rows(spark: SparkSession, log: Log, number: int) -> list[LedgerRow]:
    """Returns rows in order. Some updates do not write a cell that they left unchanged."""
    rows = [row.asDict() for row in ledger(spark, log, ORDERS, MANNER, feed=f"{number}").collect()]
    for at, row in enumerate(rows):
        if row["operation"] == "update" and "stock" not in row["changed"] and at % 2:
            row["after"] = Row(**{**row["after"].asDict(), "stock": None})
            row["after_unknown_columns"] = {"stock": change.UNAVAILABLE}
    return rows


def spoil(by_log: Sequence[list[LedgerRow]], rng: Random) -> None:
    """Adds wrong values in after images, a missing change, and in one log a truncate."""
    for rows in by_log:
        for row in rng.sample([row for row in rows if row["after"] is not None], len(rows) // 2):
            row["after"] = Row(**{**row["after"].asDict(), "total": None})
        del rows[rng.randrange(len(rows))]
    rows = by_log[1]
    at = rng.randrange(len(rows))
    kept = {name: rows[at][name] for name in ("commit_lsn", "committed_at", "feed")}
    # After the change at that position.
    place = {"sort_key": rows[at]["sort_key"] + b"\xff", "change_id": "truncate"}
    rows.insert(at + 1, {**dict.fromkeys(rows[at]), **kept, **place, "operation": change.TRUNCATE})


def log_of(row: Mapping[str, Any]) -> int:
    """Returns the number of the log that a row or key belongs to (`ledgers.apart`)."""
    return (int(row["order_no"]) - 2**53) // 10**6


def current(feed: Feed) -> dict[Any, Any]:
    """Returns the rows of the correct logs."""
    rows = (row for row in rows_of(feed, "sales_orders") if log_of(row) >= FAULTY)
    return {ORDERS.key_of(row): {name: row[name] for name in ORDERS.names} for row in rows}


def history(spark: SparkSession, feed: Feed) -> Counter[Any]:
    """Counts the intervals of the correct logs: cells, from, to, and whether the row is deleted."""
    times = [F.unix_millis(name).alias(name) for name in ("_valid_from", "_valid_to")]
    rows = spark.table(f"lake.{feed.feed}.sales_orders_history").select(*ORDERS.names, *times, "_is_deleted")
    return Counter(tuple(row) for row in rows.collect() if log_of(row.asDict()) >= FAULTY)


def true_history(log: Log) -> Counter[Any]:
    def millis(at: datetime | None) -> int | None:
        return None if at is None else round(at.timestamp() * 1000)

    return Counter(
        (
            *(version.row[n] for n in ORDERS.names),
            millis(version.valid_from),
            millis(version.valid_to),
            version.deleted,
        )
        for version in log.history(ORDERS)
    )
