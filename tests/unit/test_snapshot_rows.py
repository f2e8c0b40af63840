"""A row of a snapshot that shows what is known of its key begins no version; one that shows another does."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random, SystemRandom
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from tests.carried import LedgerRow, carry, feed_of, rows_of
from tests.key_moves import CONTRACT

from changeledger import change
from changeledger.config import Feed
from changeledger.reconcile import history

AT = datetime(2026, 8, 7, 16)
GAP = {"b": change.UNAVAILABLE}
KEY_ALONE = dict.fromkeys("ab", change.NOT_CAPTURED)

# Operation, a, b (`?`: not known).
Step = tuple[str, int | None, str | None]

# What is told of a key, and the steps that begin a version. The second of a pair of equal full-load rows is
# Qlik's delivered twice; an unknown cell that a snapshot tells is news, as is a row that had been deleted.
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
            side: (key, a, None if b == "?" else b), f"{side}_gaps": gaps,
            "sort_key": position, "commit_lsn": position, "record": ("t", 0, at, None),
            "committed_at": AT + timedelta(minutes=at * minutes),
        }  # fmt: skip
        rows.append(row)
    return rows


def ledger_of(spark: SparkSession, rows: Iterable[dict[str, Any]]) -> DataFrame:
    kinds = change.ledger_columns(CONTRACT)
    return spark.createDataFrame(
        [tuple(row.get(name) for name, _ in kinds) for row in rows],
        ", ".join(f"{change.quoted(name)} {kind}" for name, kind in kinds),
    )


def test_which_rows_begin_a_version(spark: SparkSession) -> None:
    """Each interval lasts until the next one that tells something."""
    rows = [row for key, (steps, _) in enumerate(CASES.values()) for row in rows_for(key, steps)]
    made = history.intervals(history.effects(ledger_of(spark, rows), CONTRACT), CONTRACT, "run")
    found = {(row["id"], int(row["_change_id"].split(".")[1])): row for row in made.collect()}
    versions = {name: [at for key, at in sorted(found) if key == n] for n, name in enumerate(CASES)}
    assert versions == {name: begins for name, (_, begins) in CASES.items()}
    # 1 is the case of three rows and an update: one version until that, and no break where it follows them.
    assert (found[1, 0]["_valid_from"], found[1, 0]["_valid_to"]) == (AT, AT + timedelta(minutes=3))
    assert [key for key, row in found.items() if row["_break"] is not None] == [(10, 1)]


def published(spark: SparkSession, feed: Feed) -> list[list[Row]]:
    """Current and history, with the runs that wrote their rows."""
    names = (f"lake.{feed.feed}.{name}" for name in ("dbo_t", "dbo_t_history"))
    return [sorted(spark.table(name).collect(), key=repr) for name in names]


def test_a_repeated_row_touches_nothing(spark: SparkSession) -> None:
    """In a later window: the ledger has it, history and current are as they were."""
    feed = feed_of("repeated_rows", CONTRACT)
    rows = [row for key in range(3) for row in rows_for(key, [("snapshot", key, "x")] * 2)]
    carry(spark, feed, CONTRACT, rows[::2], 0)
    before = published(spark, feed)
    carry(spark, feed, CONTRACT, rows[1::2], 1)
    assert published(spark, feed) == before
    assert len(before[0]) == 3
    assert spark.table(f"lake.{feed.feed}.dbo_t_changes").count() == 6


def test_whatever_comes_late(spark: SparkSession) -> None:
    """In any windows the tables are those of all at once: a change that comes behind a row that showed what
    was known then makes it news, and one that showed something else may become none."""
    seed = SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    rng = Random(seed)
    windows: list[list[LedgerRow]] = [[], [], []]
    operations = ("snapshot", "snapshot", "update", "insert", "delete")
    for key in range(400):
        steps = [(rng.choice(operations), rng.choice((1, 2)), rng.choice("xx?")) for _ in range(5)]
        for row in rows_for(key, [("delete", None, "?") if s[0] == "delete" else s for s in steps]):
            rng.choice(windows).append(row)
    at_once, in_parts = feed_of("snapshots_at_once", CONTRACT), feed_of("snapshots_in_parts", CONTRACT)
    carry(spark, at_once, CONTRACT, [row for rows in windows for row in rows], 0)
    for number, rows in enumerate(windows):
        carry(spark, in_parts, CONTRACT, rows, number)
    for name in ("dbo_t_changes", "dbo_t_history", "dbo_t"):
        assert rows_of(spark, in_parts, name) == rows_of(spark, at_once, name), name
