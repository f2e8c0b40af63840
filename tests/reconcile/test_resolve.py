"""Resolves duplicates and the halves of key updates, within a window and across windows."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from changeledger.model.contract import Column, Contract
from changeledger.reconcile.resolve import Resolved, resolve
from tests.reconcile.tables import Lake, LedgerRow, ledger, rows_of

CONTRACT = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, nullable=False, key_position=1),
        Column(name="a", type="int", ordinal=2),
        Column(name="note", type="nvarchar(max)", ordinal=3),
    ),
)
AT = datetime(2026, 8, 7, 16)
Image = tuple[Any, ...]


def row(name: str, operation: str, image: Image, place: int, at: int, **members: Any) -> LedgerRow:
    side = "before" if operation == "delete" else "after"
    return {
        "change_id": name, "operation": operation, "key": image[:1], side: image, "commit_lsn": bytes(10),
        "change_lsn": bytes([place]) * 10, "sort_key": bytes([place, at]),
        "source_position": ("t", 0, at, None), "committed_at": AT + timedelta(minutes=place), **members,
    }  # fmt: skip


def resolved(rows: list[LedgerRow], near: list[LedgerRow] | None = None) -> Resolved:
    return resolve(ledger(rows, CONTRACT), ledger(near or [], CONTRACT), CONTRACT, "w")


def test_delete_and_insert_at_one_position_are_one_update() -> None:
    rows = [
        row("d1", "delete", (1, 5, None), 1, 1, before_unknown_columns={"note": "unavailable"}),
        row("i1", "insert", (2, 6, "n"), 1, 2),
        # An update that mentions the key without changing it.
        row("d2", "delete", (3, 5, "n"), 2, 3, flags=["clock_suspect"]),
        row("i2", "insert", (3, 6, "n"), 2, 4, flags=["clock_suspect"]),
        # An insert before the delete is not part of an update.
        row("i3", "insert", (4, 1, "n"), 3, 5),
        row("d3", "delete", (4, 1, "n"), 3, 6),
        # Two deletes: it is unknown which of them belongs to the insert.
        row("d4", "delete", (5, 1, "n"), 4, 7),
        row("d5", "delete", (6, 1, "n"), 4, 8),
        row("i4", "insert", (7, 1, "n"), 4, 9),
        row("u", "update", (8, 1, "n"), 1, 9),
        row("i5", "insert", (9, 1, "n"), 5, 9),
        # Without a commit LSN there is no position.
        row("d6", "delete", (10, 1, "n"), 6, 10, commit_lsn=None),
        row("i6", "insert", (11, 1, "n"), 6, 11, commit_lsn=None),
        # At one sort key, nothing says that the delete is the first.
        row("d7", "delete", (12, 1, "n"), 7, 12),
        row("i7", "insert", (13, 1, "n"), 7, 12),
    ]
    by_id = {change["change_id"]: change for change in rows_of(resolved(rows).changes)}
    moved, kept = by_id.pop("i1"), by_id.pop("i2")
    assert sorted(by_id) == ["d3", "d4", "d5", "d6", "d7", "i3", "i4", "i5", "i6", "i7", "u"]
    assert (moved["operation"], moved["key"]["id"], moved["previous_key"]["id"]) == ("update", 2, 1)
    assert moved["before"] == {"id": 1, "a": 5, "note": None}
    assert moved["after"] == {"id": 2, "a": 6, "note": "n"}
    assert (moved["before_unknown_columns"], moved["changed"]) == ({"note": "unavailable"}, ["id", "a"])
    assert (moved["flags"], moved["paired_change_id"]) == (["key_changed"], "d1")
    assert (
        moved["source_position"]["offset"],
        moved["paired_source_position"]["offset"],
        moved["window_id"],
    ) == (2, 1, "w")
    assert (kept["previous_key"], kept["flags"], kept["changed"]) == (None, ["clock_suspect"], ["a"])


def test_an_update_of_a_value_whose_old_one_is_not_known_does_not_say_that_it_changed_nothing() -> None:
    """Operation 1 has NULL for every `text` (Microsoft's page, "Large object data types")."""
    rows = [
        row("d", "delete", (1, 5, None), 1, 1, before_unknown_columns={"note": "unavailable"}),
        row("i", "insert", (1, 5, "new"), 1, 2),
        row("d2", "delete", (2, 5, "n"), 2, 3),
        row("i2", "insert", (2, 5, "n"), 2, 4),
        row("d3", "delete", (3, 5, "n"), 3, 5),
        row("i3", "insert", (3, 6, "n"), 3, 6),
    ]
    changed = {r["change_id"]: (r["operation"], r["changed"]) for r in rows_of(resolved(rows).changes)}
    assert changed == {"i": ("update", None), "i2": ("update", []), "i3": ("update", ["a"])}


def test_a_row_of_a_table_without_a_key_is_updated_in_halves() -> None:
    columns = tuple(c.model_copy(update={"key_position": 0}) for c in CONTRACT.columns)
    keyless = CONTRACT.model_copy(update={"columns": columns})
    halves = [
        row("d", "delete", (1, 5, "n"), 1, 1, key=()),
        row("i", "insert", (1, 6, "n"), 1, 2, key=()),
    ]
    (update,) = rows_of(resolve(ledger(halves, keyless), ledger([], keyless), keyless, "w").changes)
    assert (update["operation"], update["previous_key"], update["changed"]) == ("update", None, ["a"])


def test_two_updates_of_keys_may_alternate_in_their_order() -> None:
    rows = [
        row("d1", "delete", (1, 5, "n"), 1, 1, sort_key=b"\1"),
        row("d2", "delete", (2, 5, "n"), 2, 2, sort_key=b"\2"),
        row("i1", "insert", (3, 5, "n"), 1, 3, sort_key=b"\3"),
        row("i2", "insert", (4, 5, "n"), 2, 4, sort_key=b"\4"),
    ]
    assert outcome(resolved(rows).changes) == (set(), {("d1", "i1"), ("d2", "i2")})


def test_a_flag_is_added_to_the_flags_of_the_change() -> None:
    both = ["clock_suspect", "key_changed"]
    rows = [
        row("d1", "delete", (1, 5, "n"), 1, 1),
        row("i1", "insert", (2, 5, "n"), 1, 2, flags=["clock_suspect"]),
        row("d2", "delete", (3, 5, "n"), 2, 1), row("i2", "insert", (4, 5, "n"), 2, 2, flags=both),
        row("d3", "delete", (5, 5, "n"), 3, 1), row("i3", "insert", (5, 5, "n"), 3, 2),
    ]  # fmt: skip
    flags = {change["change_id"]: change["flags"] for change in rows_of(resolved(rows).changes)}
    assert flags == {
        "i1": ["clock_suspect", "key_changed"],
        "i2": ["clock_suspect", "key_changed"],
        "i3": None,
    }


def test_of_several_deliveries_the_first_one_stays() -> None:
    again = row("a", "insert", (1, 1, "n"), 1, 1)
    rows = [
        {**again, "source_position": ("u", 0, 1, None)},
        {**again, "source_position": ("t", 1, 3, None)},
        {**again, "source_position": ("t", 0, 7, None)},
        {**again, "source_position": ("t", 0, 5, None)},
        row("b", "update", (1, 1, "n"), 2, 9, paired_source_position=("t", 0, 8, None)),
        {
            **row("b", "update", (1, 1, "n"), 2, 11, paired_source_position=("t", 0, 10, None)),
            "sort_key": b"\2\t",
        },
    ]
    resolution = resolved(rows)
    assert [
        (r["change_id"], r["source_position"]["partition"], r["source_position"]["offset"])
        for r in rows_of(resolution.changes)
    ] == [
        ("a", 0, 5),
        ("b", 0, 9),
    ]
    repeats = rows_of(resolution.duplicates)
    # Every record of a repeated change is a duplicate, including that of its before image.
    places = [(r["detail"], r["source_position"]) for r in repeats]
    assert sorted((detail, at["partition"], at["offset"]) for detail, at in places) == [
        ("a", 0, 1), ("a", 0, 7), ("a", 1, 3), ("b", 0, 10), ("b", 0, 11),
    ]  # fmt: skip
    names = ("window_id", "table", "disposition", "reason", "commit_lsn")
    shared = {tuple(r[name] for name in names) for r in repeats}
    assert shared == {("w", "dbo.t", "duplicate", "delivered_again", bytes(10))}


def test_what_is_published_is_a_duplicate() -> None:
    """The delete that was joined into a published key update is a duplicate, too."""
    halves = [row("d", "delete", (1, 5, "n"), 1, 1), row("i", "insert", (2, 6, "n"), 1, 2)]
    published = rows_of(resolved(halves).changes)
    resolution = resolved([*halves, row("x", "insert", (3, 1, "n"), 2, 3)], published)
    assert [change["change_id"] for change in rows_of(resolution.changes)] == ["x"]
    assert sorted(duplicate["detail"] for duplicate in rows_of(resolution.duplicates)) == ["d", "i"]
    assert len(resolution.replaced) == 0


def test_a_half_that_is_published_is_replaced() -> None:
    halves = [row("d", "delete", (1, 5, "n"), 1, 1), row("i", "insert", (2, 6, "n"), 1, 2)]
    others = [row("x", "insert", (3, 1, "n"), 2, 3), row("y", "update", (4, 1, "n"), 1, 4)]
    whole = rows_of(resolved(halves).changes)
    for first, second in (halves, reversed(halves)):
        resolution = resolved([second], [others[0], first, others[1]])
        assert rows_of(resolution.changes) == whole
        assert [change["change_id"] for change in rows_of(resolution.replaced)] == [first["change_id"]]


def test_nothing_is_resolved_to_nothing() -> None:
    resolution = resolved([])
    assert (len(resolution.changes), len(resolution.duplicates), len(resolution.replaced)) == (0, 0, 0)


@st.composite
def deliveries(draw: st.DrawFn) -> list[LedgerRow]:
    """Changes at few positions, some without a position, delivered up to three times."""
    rows = []
    for at in range(draw(st.integers(0, 12))):
        operation = draw(st.sampled_from(("insert", "delete", "delete", "insert", "update", "snapshot")))
        change = row(f"c{at}", operation, (draw(st.integers(1, 3)), at, "n"), draw(st.integers(1, 4)), at)
        if draw(st.booleans()) and draw(st.booleans()):
            change[draw(st.sampled_from(("commit_lsn", "change_lsn")))] = None
        rows += [change] * draw(st.sampled_from((1, 1, 1, 2, 3)))
    return draw(st.permutations(rows))


def reference(rows: list[LedgerRow]) -> tuple[set[str], set[tuple[str, str]]]:
    """Applies the rule. Returns ids of unpaired rows, and the pairs of ids that form one update."""
    by_id = {change["change_id"]: change for change in rows}
    places: dict[Any, list[LedgerRow]] = defaultdict(list)
    for change in by_id.values():
        if change["commit_lsn"] and change["change_lsn"]:
            places[change["commit_lsn"], change["change_lsn"]].append(change)
    joined = set()
    for changes in places.values():
        pairs = [
            (d["change_id"], i["change_id"])
            for d in changes if d["operation"] == "delete"
            for i in changes if i["operation"] == "insert" and d["sort_key"] < i["sort_key"]
        ]  # fmt: skip
        if len(pairs) == 1:
            joined.add(pairs[0])
    return by_id.keys() - {name for pair in joined for name in pair}, joined


def outcome(changes: pa.Table) -> tuple[set[str], set[tuple[str, str]]]:
    rows = rows_of(changes)
    pairs = {
        (change["paired_change_id"], change["change_id"]) for change in rows if change["paired_change_id"]
    }
    unpaired = [change["change_id"] for change in rows if not change["paired_change_id"]]
    assert len(set(unpaired)) == len(unpaired)
    return set(unpaired), pairs


@settings(max_examples=60, deadline=None)
@given(rows=deliveries())
def test_at_once_as_the_rule_says(rows: list[LedgerRow]) -> None:
    delivered = [{**change, "source_position": ("t", 0, at, None)} for at, change in enumerate(rows)]
    resolution = resolved(delivered)
    assert outcome(resolution.changes) == reference(rows)
    # Each record is in exactly one change or duplicate.
    names = ("source_position", "paired_source_position")
    records = [
        change[name]["offset"] for change in rows_of(resolution.changes) for name in names if change[name]
    ]
    records += [duplicate["source_position"]["offset"] for duplicate in rows_of(resolution.duplicates)]
    assert sorted(records) == list(range(len(rows)))


@settings(max_examples=60, deadline=None)
@given(rows=deliveries(), seed=st.integers())
def test_by_buckets_as_at_once(rows: list[LedgerRow], seed: int) -> None:
    """A bucket has all rows of a position, or of an id without a position (`resolve`)."""
    delivered = [{**change, "source_position": ("t", 0, at, None)} for at, change in enumerate(rows)]
    buckets: dict[int, list[LedgerRow]] = defaultdict(list)
    for change in delivered:
        place = (change["commit_lsn"], change["change_lsn"]) if change["change_lsn"] else change["change_id"]
        buckets[Random(f"{seed}{place!r}").randrange(3)].append(change)
    parts = [resolved(bucket) for bucket in buckets.values()]
    whole = resolved(delivered)
    for name in ("changes", "duplicates"):
        bucketed = [record for part in parts for record in rows_of(getattr(part, name))]
        assert sorted(bucketed, key=repr) == sorted(rows_of(getattr(whole, name)), key=repr)


@settings(max_examples=40, deadline=None)
@given(rows=deliveries(), seed=st.integers())
def test_in_any_windows_as_at_once(rows: list[LedgerRow], seed: int) -> None:
    """Holds for at most two rows per position: a published pair stays, whatever comes later."""
    by_id = {change["change_id"]: change["change_lsn"] for change in rows}
    shared = Counter(by_id.values())
    plain = [change for change in rows if shared[change["change_lsn"]] <= 2]
    windows: list[list[LedgerRow]] = [[], [], []]
    for at, change in enumerate(plain):
        Random(f"{seed}{at}").choice(windows).append(change)
    lake = Lake(CONTRACT, windows)
    assert outcome(lake.changes) == reference(plain)
    assert lake.all_shown == Lake(CONTRACT, [plain]).all_shown
