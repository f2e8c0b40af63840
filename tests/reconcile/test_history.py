"""Compares history intervals of random changes with a plain reference."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from changeledger.model import change
from tests.key_moves import CONTRACT
from tests.reconcile.tables import Lake, LedgerRow, intervals, rows_of

AT = datetime(2026, 8, 7, 16)
OPERATIONS = ("insert", "insert", "update", "update", "update", "delete", "snapshot", "truncate")


class Step(NamedTuple):
    """A change of one key, or a truncate of all keys. Its position is its index in the sequence.

    `gaps`: names of unknown cells.
    """

    key: int
    operation: str
    a: int | None
    b: str | None
    gaps: frozenset[str]
    seconds: int


@st.composite
def step(draw: st.DrawFn) -> Step:
    gaps = draw(st.sets(st.sampled_from(["a", "b"])))
    return Step(
        draw(st.integers(1, 4)),
        draw(st.sampled_from(OPERATIONS)),
        None if "a" in gaps else draw(st.one_of(st.none(), st.integers(0, 9))),
        None if "b" in gaps else draw(st.one_of(st.none(), st.sampled_from("xyz"))),
        frozenset(gaps),
        # Commit times may decrease while positions increase.
        draw(st.integers(0, 30)),
    )


CHANGES = st.lists(step(), min_size=1, max_size=40)


def rows_for(changes: list[Step]) -> list[LedgerRow]:
    rows = []
    for at, step in enumerate(changes):
        side = "before" if step.operation == "delete" else "after"
        of_a_row = {
            "key": (step.key,),
            side: (step.key, step.a, step.b),
            f"{side}_unknown_columns": dict.fromkeys(sorted(step.gaps), change.UNAVAILABLE) or None,
        }
        row: LedgerRow = {
            "change_id": f"c{at}", "operation": step.operation,
            **(of_a_row if step.operation != "truncate" else {}),
            "sort_key": at.to_bytes(4, "big"), "commit_lsn": bytes(10),
            "committed_at": AT + timedelta(seconds=step.seconds), "source_position": ("t", 0, at, None),
        }  # fmt: skip
        rows.append(row)
    return rows


def begin_times(steps: list[Step]) -> list[datetime]:
    """Returns when the steps' intervals begin.

    An interval begins no earlier than its predecessor, whatever its commit time. A snapshot row may be read
    at any time: it delays no change, and begins no later than the next change.
    """
    begins: list[datetime] = []
    for at, step in enumerate(steps):
        now = AT + timedelta(seconds=step.seconds)
        if step.operation == "snapshot":
            behind = next((n for n in range(at, len(steps)) if steps[n].operation != "snapshot"), None)
            now = now if behind is None else min(now, latest_commit(steps[: behind + 1]))
        begins.append(max([now, *begins[-1:]]))
    return begins


def latest_commit(steps: list[Step]) -> datetime:
    return AT + timedelta(seconds=max(step.seconds for step in steps if step.operation != "snapshot"))


def cells_of(step: Step) -> dict[str, Any]:
    """Returns the known cells of the change."""
    cells = {"a": step.a, "b": step.b}
    return {name: cells[name] for name in cells.keys() - step.gaps if step.operation != "truncate"}


def reference(changes: list[Step]) -> dict[tuple[str, int], tuple[Any, ...]]:
    """Applies the rule to each key.

    Returns, by change and key: cells, remaining gaps, begin, end, and whether the row is deleted.
    """
    expected: dict[tuple[str, int], tuple[Any, ...]] = {}
    for key in {c.key for c in changes if c.operation != "truncate"}:
        key_steps: list[tuple[int, Step]] = []
        seen: dict[str, Any] = {}
        for at, step in enumerate(changes):
            alive = bool(key_steps) and key_steps[-1][1].operation not in {"delete", "truncate"}
            if not (alive if step.operation == "truncate" else step.key == key):
                continue
            cells = cells_of(step)
            if step.operation == "snapshot" and alive and {**seen, **cells} == seen:
                continue
            seen = cells if not alive else {**seen, **cells}
            key_steps.append((at, step))
        known: dict[str, Any] = {}
        begins = begin_times([step for _, step in key_steps])
        for place, (at, step) in enumerate(key_steps):
            known |= cells_of(step)
            gone = step.operation in {"delete", "truncate"}
            ends = begins[place + 1] if place + 1 < len(key_steps) else None
            gaps = {n for n in ("a", "b") if n not in known}
            expected[f"c{at}", key] = (known.get("a"), known.get("b"), gaps, begins[place], ends, gone)
            if gone:
                known = {}
    return expected


def shown(rows: list[dict[str, Any]]) -> dict[tuple[str, int], tuple[Any, ...]]:
    versions = {
        (row["_change_id"], row["id"]): (
            row["a"], row["b"], set(row["_unknown_columns"] or ()), row["_valid_from"], row["_valid_to"],
            row["_is_deleted"],
        )
        for row in rows
    }  # fmt: skip
    assert len(versions) == len(rows)
    return versions


@settings(max_examples=60, deadline=None)
@given(changes=CHANGES, seed=st.integers())
def test_intervals_do_not_depend_on_the_order_of_arrival(changes: list[Step], seed: int) -> None:
    rows = rows_for(changes)
    Random(seed).shuffle(rows)
    assert shown(intervals(rows, CONTRACT)) == reference(changes)


@settings(max_examples=60, deadline=None)
@given(changes=CHANGES, seed=st.integers(), windows=st.integers(1, 4))
def test_any_windows_are_as_all_at_once(changes: list[Step], seed: int, windows: int) -> None:
    """Windows may have late changes, truncates and snapshot rows."""
    parts: list[list[LedgerRow]] = [[] for _ in range(windows)]
    for row in rows_for(changes):
        Random(f"{seed}{row['change_id']}").choice(parts).append(row)
    lake = Lake(CONTRACT, parts)
    wanted = reference(changes)
    assert shown(lake.shown("history")) == wanted
    alive = {key: value[:2] for (_, key), value in wanted.items() if value[4] is None and not value[5]}
    assert {key[0]: (row["a"], row["b"]) for key, row in lake.current.items()} == alive
    assert lake.all_shown == Lake(CONTRACT, [rows_for(changes)]).all_shown


def test_a_snapshot_behind_a_late_truncate_brings_its_row_back() -> None:
    """The snapshot row changed nothing and has no interval, so the key is rebuilt."""
    changes = [
        Step(1, "insert", 1, "x", frozenset(), 1),
        Step(0, "truncate", None, None, frozenset(), 2),
        Step(1, "snapshot", 1, "x", frozenset(), 3),
    ]
    first, emptied, again = rows_for(changes)
    lake = Lake(CONTRACT, ([first], [again], [emptied]))
    assert shown(lake.shown("history")) == reference(changes)
    assert list(lake.current) == [(1,)]


def test_a_full_load_that_comes_again_makes_no_change_later() -> None:
    """Rows with earlier times stay as they were.

    Qlik's REFRESH precedes all changes, but has the time of its message.
    """
    loaded, inserted, updated, late = (
        Step(1, "snapshot", 9, "x", frozenset(), 30),
        Step(1, "insert", 1, "x", frozenset(), 10),
        Step(1, "update", 2, "x", frozenset(), 20),
        Step(1, "update", 3, "x", frozenset(), 15),
    )
    versions = shown(intervals(rows_for([loaded, inserted, updated, late]), CONTRACT))
    times = {name: (row[3], row[4]) for (name, _), row in versions.items()}
    assert times == {
        "c0": (AT + timedelta(seconds=10), AT + timedelta(seconds=10)),
        "c1": (AT + timedelta(seconds=10), AT + timedelta(seconds=20)),
        # A commit time that goes back counts as the preceding time.
        "c2": (AT + timedelta(seconds=20), AT + timedelta(seconds=20)),
        "c3": (AT + timedelta(seconds=20), None),
    }
    # Without a later change, the row begins at its own time.
    (version,) = shown(intervals(rows_for([loaded]), CONTRACT)).values()
    assert version[3:5] == (AT + timedelta(seconds=30), None)


def test_what_a_truncate_ends() -> None:
    """Four keys, by the truncate: deleted before, alive, inserted again after, and first seen after."""
    sequence = [
        Step(1, "insert", 1, "x", frozenset(), 1), Step(1, "delete", 1, "x", frozenset(), 2),
        Step(2, "insert", 2, "y", frozenset(), 3), Step(3, "insert", 3, "z", frozenset(), 4),
        Step(0, "truncate", None, None, frozenset(), 5),
        Step(3, "insert", 4, "z", frozenset(), 6), Step(4, "insert", 5, "x", frozenset(), 7),
    ]  # fmt: skip
    rows = rows_for(sequence)
    lake = Lake(CONTRACT, (rows[:4] + rows[5:], rows[4:5]))
    versions = shown(lake.shown("history"))
    assert versions == reference(sequence)
    assert {key for name, key in versions if name == "c4"} == {2, 3}
    assert sorted(key for (key,) in lake.current) == [3, 4]


def test_an_update_of_a_key_ends_the_old_row_and_begins_the_new_one() -> None:
    later = AT + timedelta(hours=1)
    common = {"commit_lsn": bytes(10), "source_position": ("t", 0, 1, None)}
    inserted = {
        "change_id": "i", "operation": "insert", "key": (1,), "after": (1, 5, "x"), "sort_key": b"\1",
        "committed_at": AT, **common,
    }  # fmt: skip
    moved = {
        "change_id": "u", "operation": "update", "key": (2,), "previous_key": (1,), "before": (1, 5, "x"),
        "after": (2, 5, "x"), "sort_key": b"\2", "committed_at": later, **common,
    }  # fmt: skip
    rows = sorted(intervals([inserted, moved], CONTRACT), key=lambda r: (r["id"], r["_sort_key"]))
    assert [
        (r["id"], r["_change_id"], r["_valid_from"], r["_valid_to"], r["_is_deleted"], r["_previous_key"])
        for r in rows
    ] == [
        (1, "i", AT, later, False, None),
        (1, "u", later, None, True, None),
        (2, "u", later, None, False, {"id": 1}),
    ]


def test_a_row_that_is_moved_onto_another_one_has_none_of_its_cells() -> None:
    """The delete of the other row was lost. An insert at its key may be the same row, sent again."""
    common = {"committed_at": AT, "source_position": ("t", 0, 1, None)}
    unknown = {"after_unknown_columns": {"b": change.UNAVAILABLE}}
    there, other = (
        {"change_id": f"i{key}", "operation": "insert", "key": (key,), "after": (key, key, text),
         "sort_key": bytes([key]), **common}
        for key, text in ((1, "of the other one"), (2, "x"))
    )  # fmt: skip
    comes = {"change_id": "c", "key": (1,), "after": (1, 2, None), "sort_key": b"\3", **unknown, **common}
    for change_of, published in (
        ({"operation": "update", "previous_key": (2,), "before": (2, 2, "x")}, (None, {"b": "unavailable"})),
        ({"operation": "insert"}, ("of the other one", None)),
    ):
        rows = intervals([there, other, {**comes, **change_of}], CONTRACT)
        (row,) = (r for r in rows if (r["id"], r["_valid_to"]) == (1, None))
        assert (row["b"], row["_unknown_columns"] or None) == published


def test_an_interval_that_ends_later_keeps_its_commit_time() -> None:
    """An interval whose commit time precedes that of the previous change begins later."""
    changes = [
        Step(1, "insert", 1, "x", frozenset(), 9),
        Step(1, "update", 2, "x", frozenset(), 3),
        Step(1, "update", 3, "x", frozenset(), 12),
    ]
    lake = Lake(CONTRACT, ([row] for row in rows_for(changes)))
    times = {row["_change_id"]: (row["_committed_at"], row["_valid_from"]) for row in rows_of(lake.history)}
    seconds = {name: tuple((time - AT).seconds for time in both) for name, both in times.items()}
    assert seconds == {"c0": (9, 9), "c1": (3, 9), "c2": (12, 12)}
