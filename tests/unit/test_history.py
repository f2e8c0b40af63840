"""Intervals of history, for random sequences of changes against a plain reference."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession

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


OPERATIONS = ("insert", "insert", "update", "update", "update", "delete", "snapshot", "truncate")


class Told(NamedTuple):
    """One change of one key, or a truncate of all: the position is its place in `ledger_of`.

    `gaps` names cells not known.
    """

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
        draw(st.sampled_from(OPERATIONS)),
        None if "a" in gaps else draw(st.one_of(st.none(), st.integers(0, 9))),
        None if "b" in gaps else draw(st.one_of(st.none(), st.sampled_from("xyz"))),
        frozenset(gaps),
        # Commit times may go back while positions go on.
        draw(st.integers(0, 30)),
    )


def ledger_of(spark: SparkSession, changes: list[Told], order: list[int]) -> DataFrame:
    columns = change.ledger_columns(CONTRACT)
    rows = []
    for at in order:
        one = changes[at]
        side = "before" if one.operation == "delete" else "after"
        of_a_row = {
            "key": (one.key,),
            side: (one.key, one.a, one.b),
            f"{side}_gaps": dict.fromkeys(one.gaps, change.UNAVAILABLE) or None,
        }
        members = {
            "change_id": f"c{at}", "operation": one.operation,
            **(of_a_row if one.operation != "truncate" else {}),
            "sort_key": at.to_bytes(4, "big"), "commit_lsn": bytes(10),
            "committed_at": AT + timedelta(seconds=one.seconds), "record": ("t", 0, at, None),
        }  # fmt: skip
        rows.append(tuple(members.get(name) for name, _ in columns))
    return spark.createDataFrame(rows, ", ".join(f"{change.quoted(n)} {kind}" for n, kind in columns))


def cells_of(one: Told) -> dict[str, Any]:
    """Those that the change tells."""
    cells = {"a": one.a, "b": one.b}
    return {name: cells[name] for name in cells.keys() - one.gaps if one.operation != "truncate"}


def reference(changes: list[Told]) -> dict[tuple[str, int], tuple[Any, ...]]:
    """By change and key: cells, gaps that remain, from, to and whether the row is gone. From the rule."""
    found: dict[tuple[str, int], tuple[Any, ...]] = {}
    for key in {c.key for c in changes if c.operation != "truncate"}:
        own: list[tuple[int, Told]] = []
        seen: dict[str, Any] = {}
        for at, one in enumerate(changes):
            alive = bool(own) and own[-1][1].operation not in {"delete", "truncate"}
            if not (alive if one.operation == "truncate" else one.key == key):
                continue
            told = cells_of(one)
            if one.operation == "snapshot" and alive and {**seen, **told} == seen:
                continue
            seen = told if not alive else {**seen, **told}
            own.append((at, one))
        known: dict[str, Any] = {}
        begins: list[datetime] = []
        for _, one in own:
            now = AT + timedelta(seconds=one.seconds)
            begins.append(max([now, *begins[-1:]]))
        for place, (at, one) in enumerate(own):
            known |= cells_of(one)
            gone = one.operation in {"delete", "truncate"}
            ends = begins[place + 1] if place + 1 < len(own) else None
            gaps = {n for n in ("a", "b") if n not in known}
            found[f"c{at}", key] = (known.get("a"), known.get("b"), gaps, begins[place], ends, gone)
            if gone:
                known = {}
    return found


def shown(rows: list[Row]) -> dict[tuple[str, int], tuple[Any, ...]]:
    found = {
        (row["_change_id"], row["id"]): (
            row["a"], row["b"], set(row["_gaps"] or ()), row["_valid_from"], row["_valid_to"],
            row["_is_deleted"],
        )
        for row in rows
    }  # fmt: skip
    assert len(found) == len(rows)
    return found


def all_at_once(ledger: DataFrame, run: str) -> DataFrame:
    effects = history.effects(ledger, CONTRACT)
    return history.intervals(effects, CONTRACT, run, emptyings=history.truncates(ledger))


@settings(max_examples=4, deadline=None, phases=(Phase.generate,))
@given(changes=st.lists(told(), min_size=40, max_size=40), seed=st.integers())
def test_intervals_do_not_depend_on_the_order_of_arrival(
    spark: SparkSession, changes: list[Told], seed: int
) -> None:
    order = list(range(len(changes)))
    random.Random(seed).shuffle(order)
    ledger = ledger_of(spark, changes, order)
    rows = all_at_once(ledger, "run").collect()
    assert shown(rows) == reference(changes)


@settings(max_examples=2, deadline=None, phases=(Phase.generate,))
@given(changes=st.lists(told(), min_size=40, max_size=40), cut=st.integers(1, 39))
def test_going_on_from_open_intervals_is_as_all_at_once(
    spark: SparkSession, changes: list[Told], cut: int
) -> None:
    """The open intervals after `cut` changes, with the rest, end as the whole sequence does."""
    first, rest = (ledger_of(spark, changes, list(part)) for part in (range(cut), range(cut, len(changes))))
    begun = all_at_once(first, "one")
    opened = history.seeds(begun.where("_valid_to IS NULL"), CONTRACT)
    more = history.effects(rest, CONTRACT).unionByName(opened)
    emptyings = history.truncates(first.unionByName(rest))
    found = shown(history.intervals(more, CONTRACT, "two", emptyings=emptyings).collect())
    wanted = reference(changes)
    assert found == {place: wanted.get(place) for place in found}
    late = {f"c{at}" for at in range(cut, len(changes))}
    assert {place for place in wanted if place[0] in late} <= set(found)


def test_what_a_truncate_ends(spark: SparkSession) -> None:
    """Of four keys: gone before, alive, come back, and first seen after the truncate."""
    sequence = [
        Told(1, "insert", 1, "x", frozenset(), 1), Told(1, "delete", 1, "x", frozenset(), 2),
        Told(2, "insert", 2, "y", frozenset(), 3), Told(3, "insert", 3, "z", frozenset(), 4),
        Told(0, "truncate", None, None, frozenset(), 5),
        Told(3, "insert", 4, "z", frozenset(), 6), Told(4, "insert", 5, "x", frozenset(), 7),
    ]  # fmt: skip
    ledger = ledger_of(spark, sequence, list(range(7)))
    rows = ledger.where("operation != 'truncate'")
    published = history.intervals(history.effects(rows, CONTRACT), CONTRACT, "run")
    found = history.alive_at(published, history.truncates(ledger), CONTRACT).collect()
    assert sorted((row["key"]["id"], row["is_open"]) for row in found) == [(2, True), (3, False)]


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
    found = history.intervals(touched, CONTRACT, "run").orderBy("id", "_sort_key").collect()
    later = AT + timedelta(hours=1)
    assert [
        (r["id"], r["_change_id"], r["_valid_from"], r["_valid_to"], r["_is_deleted"], r["_previous_key"])
        for r in found
    ] == [
        (1, "i", AT, later, False, None),
        (1, "u", later, None, True, None),
        (2, "u", later, None, False, (1,)),
    ]
