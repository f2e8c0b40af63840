"""However a feed's changes are cut into windows, in whatever order, as often as one likes: the same tables.

On real tables, through the real stage; what stands before it, and the audit after it, are left out. Several
logs are written as one, each cut in its own way: a run of the stage costs the same for all of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import chain, count
from random import Random, SystemRandom
from typing import Any, NamedTuple

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
# The first ones have faults, the others are right: a truncate ends what came before it, whosever it is.
FAULTY = 4
# Where a part comes after what follows it, a break that was there till then is corrected.
ORDERS_OF_PARTS = ("forwards", "backwards", "the middle last", "any") * 2
WINDOWS = 4
NUMBERS = count()

# From where to where, of all rows in the source's order.
Part = tuple[float, float]


class Reported(NamedTuple):
    """A log's seed, and the parts of it that the windows have, in the order in which they run."""

    seed: int
    parts: Sequence[Part]


def sent_in_parts(rng: Random, how: str) -> Reported:
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
    return Reported(rng.randrange(10**6), [*in_order[how], rng.choice(parts)])


def test_the_tables_do_not_depend_on_the_windows(spark: SparkSession) -> None:
    """Another seed at each run, which a failure shows.

    One is all that there is time for, and hypothesis would begin with the simplest: all logs the same, cut at
    the same place.
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
    """In order; an update does not always write a cell that it left as it was."""
    rows = [row.asDict() for row in ledger(spark, log, ORDERS, MANNER, feed=f"{number}").collect()]
    for at, row in enumerate(rows):
        if row["operation"] == "update" and "stock" not in row["changed"] and at % 2:
            row["after"] = Row(**{**row["after"].asDict(), "stock": None})
            row["after_unknown_columns"] = {"stock": change.UNAVAILABLE}
    return rows


def spoil(by_log: Sequence[list[LedgerRow]], rng: Random) -> None:
    """Wrong values in after images, a change that is not written, and in one log a truncate."""
    for rows in by_log:
        for row in rng.sample([row for row in rows if row["after"] is not None], len(rows) // 2):
            row["after"] = Row(**{**row["after"].asDict(), "total": None})
        del rows[rng.randrange(len(rows))]
    rows = by_log[1]
    at = rng.randrange(len(rows))
    kept = {name: rows[at][name] for name in ("commit_lsn", "committed_at", "feed")}
    # Behind what stands there.
    place = {"sort_key": rows[at]["sort_key"] + b"\xff", "change_id": "truncate"}
    rows.insert(at + 1, {**dict.fromkeys(rows[at]), **kept, **place, "operation": change.TRUNCATE})


def log_of(row: Mapping[str, Any]) -> int:
    """The number of the log that a row, or a key, is of (`ledgers.apart`)."""
    return (int(row["order_no"]) - 2**53) // 10**6


def current(feed: Feed) -> dict[Any, Any]:
    """The rows of the logs that are written right."""
    rows = (row for row in rows_of(feed, "sales_orders") if log_of(row) >= FAULTY)
    return {ORDERS.key_of(row): {name: row[name] for name in ORDERS.names} for row in rows}


def history(spark: SparkSession, feed: Feed) -> Counter[Any]:
    """The same: how often each interval is there; cells, from, to, and whether the row is gone."""
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
