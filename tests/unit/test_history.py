"""Intervals of history, for random sequences of changes against a plain reference."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from changeledger import change
from changeledger.contract import Column, Contract
from changeledger.reconcile import history

CONTRACT = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, nullable=False, key_position=1),
        Column(name="a", type="int", ordinal=2),
        Column(name="b", type="nvarchar(9)", ordinal=3),
    ),
)
AT = datetime(2026, 8, 7, 16)


class Told(NamedTuple):
    """One change of one key: the position is its place in `ledger_of`; `gaps` names cells not known."""

    key: int
    operation: str
    a: int | None
    b: str | None
    gaps: frozenset[str]
    seconds: int


@st.composite
def told(draw: st.DrawFn) -> Told:
    gaps = draw(st.sets(st.sampled_from(["a", "b"])))
    return Told(
        draw(st.integers(1, 4)),
        draw(st.sampled_from(["insert", "update", "update", "delete", "snapshot"])),
        None if "a" in gaps else draw(st.one_of(st.none(), st.integers(0, 9))),
        None if "b" in gaps else draw(st.one_of(st.none(), st.sampled_from("xyz"))),
        frozenset(gaps),
        # Commit times may go back while positions go on.
        draw(st.integers(0, 30)),
    )


def ledger_of(spark: SparkSession, changes: list[Told], order: list[int]) -> Any:
    columns = change.ledger_columns(CONTRACT)
    rows = []
    for at in order:
        one = changes[at]
        side = "before" if one.operation == "delete" else "after"
        members = {
            "change_id": f"c{at}", "operation": one.operation, "key": (one.key,),
            side: (one.key, one.a, one.b),
            f"{side}_gaps": dict.fromkeys(one.gaps, change.UNAVAILABLE) or None,
            "sort_key": at.to_bytes(4, "big"), "commit_lsn": bytes(10),
            "committed_at": AT + timedelta(seconds=one.seconds), "record": ("t", 0, at, None),
        }  # fmt: skip
        rows.append(tuple(members.get(name) for name, _ in columns))
    return spark.createDataFrame(rows, ", ".join(f"{change.quoted(n)} {kind}" for n, kind in columns))


def reference(changes: list[Told]) -> dict[str, tuple[Any, ...]]:
    """By change: cells, gaps that remain, from, to and whether the row is gone. Written from the rule."""
    found: dict[str, tuple[Any, ...]] = {}
    for key in {c.key for c in changes}:
        own = [(at, c) for at, c in enumerate(changes) if c.key == key]
        known: dict[str, Any] = {}
        begins: list[datetime] = []
        for _, one in own:
            now = AT + timedelta(seconds=one.seconds)
            begins.append(max([now, *begins[-1:]]))
        for place, (at, one) in enumerate(own):
            for name, value in (("a", one.a), ("b", one.b)):
                if name not in one.gaps:
                    known[name] = value
            gone = one.operation == "delete"
            ends = begins[place + 1] if place + 1 < len(own) else None
            gaps = {n for n in ("a", "b") if n not in known}
            found[f"c{at}"] = (key, known.get("a"), known.get("b"), gaps, begins[place], ends, gone)
            if gone:
                known = {}
    return found


@settings(max_examples=4, deadline=None, phases=(Phase.generate,))
@given(changes=st.lists(told(), min_size=40, max_size=40), seed=st.integers())
def test_intervals_do_not_depend_on_the_order_of_arrival(
    spark: SparkSession, changes: list[Told], seed: int
) -> None:
    order = list(range(len(changes)))
    random.Random(seed).shuffle(order)
    touched = history.effects(ledger_of(spark, changes, order), CONTRACT)
    rows = history.intervals(touched, CONTRACT, "run", carry=True).collect()
    assert {
        row["_change_id"]: (
            row["id"], row["a"], row["b"], set(row["_gaps"] or ()), row["_valid_from"], row["_valid_to"],
            row["_is_deleted"],
        )
        for row in rows
    } == reference(changes)  # fmt: skip
    assert len(rows) == len(changes)


@settings(max_examples=2, deadline=None, phases=(Phase.generate,))
@given(changes=st.lists(told(), min_size=40, max_size=40), cut=st.integers(1, 39))
def test_going_on_from_open_intervals_is_as_all_at_once(
    spark: SparkSession, changes: list[Told], cut: int
) -> None:
    """The open intervals after `cut` changes, with the rest, end as the whole sequence does."""
    first, rest = list(range(cut)), list(range(cut, len(changes)))
    begun = history.intervals(
        history.effects(ledger_of(spark, changes, first), CONTRACT), CONTRACT, "one", carry=True
    )
    opened = history.seeds(begun.where("_valid_to IS NULL"), CONTRACT)
    more = history.effects(ledger_of(spark, changes, rest), CONTRACT).unionByName(opened)
    rows = history.intervals(more, CONTRACT, "two", carry=True).collect()
    wanted = reference(changes)
    for row in rows:
        assert wanted[row["_change_id"]] == (
            row["id"], row["a"], row["b"], set(row["_gaps"] or ()), row["_valid_from"], row["_valid_to"],
            row["_is_deleted"],
        )  # fmt: skip
    assert {f"c{at}" for at in rest} <= {row["_change_id"] for row in rows}


def test_an_update_of_a_key_ends_the_old_row_and_begins_the_new_one(spark: SparkSession) -> None:
    columns = change.ledger_columns(CONTRACT)
    kinds = ", ".join(f"{change.quoted(n)} {kind}" for n, kind in columns)
    common = {"commit_lsn": bytes(10), "record": ("t", 0, 1, None)}
    inserted = {
        "change_id": "i",
        "operation": "insert",
        "key": (1,),
        "after": (1, 5, "x"),
        "sort_key": b"\1",
        "committed_at": AT,
    }
    moved = {
        "change_id": "u", "operation": "update", "key": (2,), "previous_key": (1,), "before": (1, 5, "x"),
        "after": (2, 5, "x"), "sort_key": b"\2", "committed_at": AT + timedelta(hours=1),
    }  # fmt: skip
    rows = [tuple({**common, **one}.get(n) for n, _ in columns) for one in (inserted, moved)]
    touched = history.effects(spark.createDataFrame(rows, kinds), CONTRACT)
    found = history.intervals(touched, CONTRACT, "run", carry=False).orderBy("id", "_sort_key").collect()
    later = AT + timedelta(hours=1)
    assert [
        (r["id"], r["_change_id"], r["_valid_from"], r["_valid_to"], r["_is_deleted"], r["_previous_key"])
        for r in found
    ] == [
        (1, "i", AT, later, False, None),
        (1, "u", later, None, True, None),
        (2, "u", later, None, False, (1,)),
    ]
