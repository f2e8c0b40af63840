"""Late snapshot rows, key updates and truncates through the real reconcile stage, on real tables.

`tests/reconcile` covers the same rules for the kernels alone, in many more sequences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from random import Random, SystemRandom
from typing import Any

import pytest
from pyspark.sql import SparkSession

from changeledger.audit.gate import RuleResult
from changeledger.audit.rules import IMAGES
from changeledger.config.feed import Feed
from changeledger.lake import catalog
from changeledger.stages.auditing.evidence import may_have, with_images
from tests.feeds import feed_of
from tests.key_moves import CONTRACT, reported
from tests.ledger_windows import LedgerRow, carry, rows_of
from tests.reconcile import test_history
from tests.reconcile.test_history import Step
from tests.reconcile.test_key_moves import CHANGE, MOVE, SWAP, all_scenarios_in_windows, assert_true
from tests.reconcile.test_snapshot_rows import rows_for
from tests.stored_rows import stored_rows


def published(feed: Feed) -> list[list[dict[str, Any]]]:
    """Returns current rows and history, with the runs that wrote their rows."""
    names = (f"lake.{feed.feed}.{name}" for name in ("dbo_t", "dbo_t_history"))
    return [sorted(stored_rows(name), key=repr) for name in names]


def carried(spark: SparkSession, name: str, windows: Iterable[Sequence[LedgerRow]]) -> Feed:
    """Publishes these windows, and returns their feed."""
    feed = feed_of(name, CONTRACT.table)
    for number, rows in enumerate(windows):
        carry(spark, feed, CONTRACT, rows, number)
    return feed


def assert_as_at_once(spark: SparkSession, name: str, windows: Sequence[Sequence[LedgerRow]]) -> None:
    """Asserts that the tables equal those of one window with all rows."""
    in_parts = carried(spark, f"{name}_in_parts", windows)
    at_once = carried(spark, f"{name}_at_once", [list(chain(*windows))])
    for table in ("dbo_t_changes", "dbo_t_history", "dbo_t"):
        assert rows_of(in_parts, table) == rows_of(at_once, table), table


def test_a_repeated_row_touches_nothing(spark: SparkSession) -> None:
    """In a later window, the ledger gains the row, and history and current rows stay as they were."""
    feed = feed_of("repeated_rows", CONTRACT.table)
    rows = [row for key in range(3) for row in rows_for(key, [("snapshot", key, "x")] * 2)]
    carry(spark, feed, CONTRACT, rows[::2], 0)
    before = published(feed)
    carry(spark, feed, CONTRACT, rows[1::2], 1)
    assert published(feed) == before
    assert len(before[0]) == 3
    assert len(stored_rows(f"lake.{feed.feed}.dbo_t_changes")) == 6


@pytest.mark.long
def test_whatever_comes_late(spark: SparkSession) -> None:
    """In any windows, the tables equal those of all changes at once.

    A late change before a row that showed the known state makes that row news, and one that showed another
    state may become no news.
    """
    seed = SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    rng = Random(seed)
    windows: list[list[LedgerRow]] = [[], [], []]
    operations = ("snapshot", "snapshot", "update", "insert", "delete")
    for key in range(400):
        steps = [(rng.choice(operations), rng.choice((1, 2)), rng.choice("xx?")) for _ in range(5)]
        steps = [("delete", None, "?") if step[0] == "delete" else step for step in steps]
        for row in rows_for(key, steps):
            rng.choice(windows).append(row)
    assert_as_at_once(spark, "snapshots", windows)


def test_breaks_of_the_image_chain(spark: SparkSession) -> None:
    """The late update resolves the break after it. Other breaks keep the run that first found them."""
    updates = [Step(1, "update", at, "x", frozenset(), at) for at in range(2, 6)]
    rows = test_history.rows_for([Step(1, "insert", 1, "x", frozenset(), 1), *updates])
    for row, a in zip(rows[1:], (9, 2, 3, 8), strict=True):
        row["before"] = (1, a, "x")
    feed = feed_of("late_breaks", CONTRACT.table)
    carry(spark, feed, CONTRACT, rows[:2] + rows[3:], 0)
    before = breaks_of(feed)
    assert before.keys() == {"c1", "c3", "c4"}
    carry(spark, feed, CONTRACT, rows[2:3], 1)
    assert breaks_of(feed) == {name: run for name, run in before.items() if name != "c3"}


def test_history_is_built_again_from_the_midst_of_a_swap(spark: SparkSession) -> None:
    """From the late change on, no interval of the key can be continued, so its whole history is rebuilt."""
    rows = reported([SWAP, [[(3, 3)]], CHANGE, MOVE], 0).rows
    between = {**rows[6], "change_id": "late", "sort_key": rows[4]["sort_key"] + b"\x01"}
    assert_as_at_once(spark, "swap", ([*rows[:7], rows[8]], [between, rows[7]]))


def test_images_of_changes_that_break_a_rule(spark: SparkSession) -> None:
    """Images are shown of the run's own change, and of an earlier change whose chain it breaks.

    The ledger's other files are not read, since a real ledger has those of years.
    """
    operations = enumerate(("insert", "update", "update", "insert", "insert"), 1)
    steps = [Step(1 + at // 4, operation, at, "x", frozenset(), at) for at, operation in operations]
    rows = test_history.rows_for(steps)
    for at, row in enumerate(rows):
        row["commit_lsn"] = at.to_bytes(10)
    rows[1]["before"] = rows[2]["before"] = (1, 1, "x")
    feed = carried(spark, "late_images", (rows[3:4], rows[:1] + rows[2:3], rows[4:]))
    ctx = carry(spark, feed, CONTRACT, rows[1:2], 3)
    samples = tuple({"change_id": name} for name in ("c1", "c2", "c3"))
    of_chain = {"table": CONTRACT.table, "rule": "image_chain", "says": "", "severity": "error"}
    broken = RuleResult(False, violations=3, samples=samples, **of_chain)
    (result,) = with_images(ctx, [broken], CONTRACT)
    shown = {row["change_id"]: [image["operation"] for image in row[IMAGES]] for row in result.samples}
    assert shown == {"c1": ["update"], "c2": ["update"], "c3": []}
    ledger = ctx.names[CONTRACT.table].changes
    whole = catalog.load(ledger).scan()
    read = whole.filter(may_have(ctx, CONTRACT.table, ["c1", "c2", "c3"]))
    assert (len(list(read.plan_files())), len(list(whole.plan_files()))) == (2, 4)


def breaks_of(feed: Feed) -> dict[str, str]:
    """Returns changes, each with the run that found it to be a break."""
    return {row["change_id"]: row["window_id"] for row in stored_rows(feed.lake.image_chain_breaks)}


def test_what_a_truncate_ends(spark: SparkSession) -> None:
    """A late truncate ends what was alive before it.

    The five keys are: deleted before it, alive, inserted again, first seen after it, and alive with a
    snapshot row after it. That snapshot row showed the known state, so history has no trace of it and the key
    is rebuilt.
    """
    sequence = [
        Step(1, "insert", 1, "x", frozenset(), 1), Step(1, "delete", 1, "x", frozenset(), 2),
        Step(2, "insert", 2, "y", frozenset(), 3), Step(3, "insert", 3, "z", frozenset(), 4),
        Step(5, "insert", 1, "x", frozenset(), 5),
        Step(0, "truncate", None, None, frozenset(), 6),
        Step(3, "insert", 4, "z", frozenset(), 7), Step(4, "insert", 5, "x", frozenset(), 8),
        Step(5, "snapshot", 1, "x", frozenset(), 9),
    ]  # fmt: skip
    rows = test_history.rows_for(sequence)
    feed = carried(spark, "late_truncate", (rows[:5] + rows[6:8], rows[8:], rows[5:6]))
    history = test_history.shown(rows_of(feed, "dbo_t_history"))
    assert history == test_history.reference(sequence)
    assert {key for name, key in history if name == "c5"} == {2, 3, 5}
    assert [row["id"] for row in rows_of(feed, "dbo_t")] == [3, 4, 5]


@pytest.mark.long
def test_truncates_among_changes_in_any_windows(spark: SparkSession) -> None:
    seed = SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    rng = Random(seed)
    changes = [invented_step(rng) for _ in range(400)]
    windows: list[list[LedgerRow]] = [[], [], []]
    for row in test_history.rows_for(changes):
        rng.choice(windows).append(row)
    feed = carried(spark, "late_steps", windows)
    assert test_history.shown(rows_of(feed, "dbo_t_history")) == test_history.reference(changes)


def invented_step(rng: Random) -> Step:
    gaps = frozenset(name for name in "ab" if rng.random() < 0.3)
    a = None if "a" in gaps else rng.choice((None, 1, 2))
    b = None if "b" in gaps else rng.choice((None, "x", "y"))
    operation = "truncate" if rng.random() < 0.02 else rng.choice(test_history.OPERATIONS[:-1])
    return Step(rng.randint(1, 50), operation, a, b, gaps, rng.randint(0, 30))


@pytest.mark.long
def test_scenarios_in_any_windows(spark: SparkSession) -> None:
    windows, truth = all_scenarios_in_windows()
    feed = carried(spark, "key_moves", windows)
    assert_true(rows_of(feed, "dbo_t_history"), truth)
    current = {row["id"]: (row["a"], row["b"]) for row in rows_of(feed, "dbo_t")}
    assert current == truth.alive
    assert rows_of(feed, "image_chain_breaks") == []
