"""Joins the two rows of an update."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from changeledger.config.feed import Feed
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.tables.outcomes import decoded_schema
from changeledger.dialects.tables.pairs import joined
from changeledger.model.contract import Column, Contract

CONTRACT = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, nullable=False, key_position=1),
        Column(name="a", type="int", ordinal=2),
        Column(name="note", type="nvarchar(max)", ordinal=3),
    ),
)
FEED = Feed.model_validate(
    {
        "feed": "cdc", "dialect": "sqlserver_cdc", "database": "shop", "connection": "shop", "source": {},
        "tables": [{"table": "dbo.t"}],
    }
)  # fmt: skip
PLAN = TablePlan(FEED, CONTRACT, CONTRACT, "window")
Row = dict[str, Any]


def half(
    at: int, part: str, pair: str | None, *, row: int = 1, says: int | None = None, **members: Any
) -> Row:
    """A decoded row. `says`: the value in its image."""
    side = "before" if part == "before" else "after"
    image = {"id": row, "a": at if says is None else says, "note": None}
    return {
        "operation": "update", "key": {"id": row}, side: image, "part": part, "sort_key": bytes([at]),
        "pair_key": None if pair is None else pair.encode(), "disposition": "change", "mask": "02",
        "source_position": {"source": "t", "partition": None, "offset": at, "row": b"p"}, "raw_value": b"{}",
        **members,
    }  # fmt: skip


def reported(*rows: Row) -> dict[int, Row]:
    batch = joined(pa.RecordBatch.from_pylist(list(rows), decoded_schema(CONTRACT)), PLAN)
    assert [row["source_position"]["offset"] for row in batch.to_pylist()] == [
        row["source_position"]["offset"] for row in rows
    ]
    return {row["source_position"]["offset"]: row for row in batch.to_pylist()}


def brief(results: dict[int, Row]) -> dict[int, tuple[Any, ...]]:
    return {
        at: (
            row["disposition"], row["reason"], row["before"] and row["before"]["a"],
            row["after"] and row["after"]["a"],
            row["paired_source_position"] and row["paired_source_position"]["offset"],
            row["flags"],
        )
        for at, row in results.items()
    }  # fmt: skip


def test_halves_are_found_by_their_position() -> None:
    rows = [
        half(0, "before", "p"), half(1, "before", "q"), half(2, "after", "q"),
        half(3, "whole", None, operation="insert"), half(4, "after", "p"), half(5, "after", "alone"),
        half(6, "before", "lonely"),
        # The other half is unreadable and has no pair key, so they are not joined.
        half(7, "whole", None, disposition="quarantined", reason="malformed_mask"), half(8, "after", "bad"),
    ]  # fmt: skip
    expected = {
        2: ("change", None, 1, 2, 1, None),
        3: ("change", None, None, 3, None, None),
        4: ("change", None, 0, 4, 0, None),
        5: ("change", None, None, 5, None, ["before_unknown"]),
        7: ("quarantined", "malformed_mask", None, 7, None, None),
        8: ("change", None, None, 8, None, ["before_unknown"]),
    }
    results = reported(*rows)
    assert {at: outcome for at, outcome in brief(results).items() if at in expected} == expected
    assert {at: results[at]["disposition"] for at in (0, 1)} == {0: "paired", 1: "paired"}
    assert (results[6]["disposition"], results[6]["reason"]) == ("quarantined", "before_without_after")
    assert results[6]["detail"] == "the window is complete, but lacks the row with the new values"
    assert {at for at, row in results.items() if row["raw_value"]} == {3, 6, 7}
    assert reported(*reversed(rows)) == results


def test_a_pair_of_two_keys_moves_its_row() -> None:
    results = reported(
        half(0, "after", "p", row=2), half(1, "before", "p", row=1), half(2, "after", "q", row=3)
    )
    assert {at: (row["previous_key"], row["flags"]) for at, row in results.items() if at != 1} == {
        0: ({"id": 1}, ["key_changed"]), 2: (None, ["before_unknown"]),
    }  # fmt: skip


def test_a_half_that_comes_again_is_a_duplicate_of_the_first() -> None:
    rows = [
        half(0, "before", "p", says=1), half(1, "after", "p", says=2),
        half(2, "before", "p", says=1), half(3, "after", "p", says=2),
        half(4, "before", "q", says=1), half(5, "after", "q", says=2), half(6, "after", "q", says=2),
        half(7, "before", "lonely", says=1), half(8, "before", "lonely", says=1),
    ]  # fmt: skip
    repeated = ("duplicate", "delivered_again")
    results = reported(*rows)
    assert {at: outcome[:2] for at, outcome in brief(results).items()} == {
        0: ("paired", None), 1: ("change", None), 2: repeated, 3: repeated,
        4: ("paired", None), 5: ("change", None), 6: repeated,
        7: ("quarantined", "before_without_after"), 8: repeated,
    }  # fmt: skip
    assert brief(results)[1] == ("change", None, 1, 2, 0, None)
    assert reported(*reversed(rows)) == results


def test_halves_that_nothing_distinguishes_are_quarantined() -> None:
    rows = [half(0, "before", "p"), half(1, "after", "p"), half(2, "before", "p"), half(3, "after", "p")]
    results = reported(*rows)
    assert {outcome[:2] for outcome in brief(results).values()} == {("quarantined", "ambiguous_pair")}
    assert {row["raw_value"] for row in results.values()} == {b"{}"}


def test_halves_of_one_update_have_one_mask() -> None:
    masked = {"changed": ["a"]}
    results = reported(
        half(0, "before", "p", mask="02"), half(1, "after", "p", mask="06", **masked),
        # Before rows without a mask, or with a mask without bits.
        half(2, "before", "q", mask=""), half(3, "after", "q", mask="06", **masked),
        half(4, "before", "r", mask=None), half(5, "after", "r", mask="06", **masked),
        half(6, "before", "s", mask="0000"), half(7, "after", "s", mask="06", **masked),
    )  # fmt: skip
    assert {at: results[at]["flags"] for at in (1, 3, 5, 7)} == {
        1: ["mask_disagrees"],
        3: None,
        5: None,
        7: None,
    }


@pytest.mark.parametrize(
    ("changed", "gaps", "flags"),
    [
        (["a"], None, None),
        (["A"], None, None),
        (["a", "note"], None, ["mask_disagrees"]),
        ([], None, ["mask_disagrees"]),
        # An unknown column may or may not differ, so its bit may be set or not.
        (["a", "note"], [("note", "unavailable")], None),
        (["note"], [("a", "unavailable"), ("note", "unavailable")], None),
        (None, None, None),
    ],
)
def test_a_mask_is_compared_with_the_images(changed: Any, gaps: Any, flags: Any) -> None:
    before = half(0, "before", "p", before_unknown_columns=gaps)
    assert reported(before, half(1, "after", "p", changed=changed))[1]["flags"] == flags


def test_a_large_value_that_is_lost_without_its_bit_contradicts_the_mask() -> None:
    """Change tables omit an unchanged large value from both rows."""
    old = half(0, "before", "p")
    old["before"] = {"id": 1, "a": 0, "note": "long"}
    new = half(1, "after", "p", changed=["a"], after_unknown_columns=[("note", "unavailable")])
    update = reported(old, new)[1]
    assert update["flags"] == ["mask_disagrees"]
    assert (update["after"]["note"], update["after_unknown_columns"]) == (None, None), (
        "it was set to NULL, and is known"
    )
    new["changed"] = None
    assert reported(old, new)[1]["flags"] is None
    old["before"] = {"id": 1, "a": 0, "note": None}
    assert reported(old, new)[1]["after_unknown_columns"] == [("note", "unavailable")], (
        "it may have been left alone"
    )


def test_new_flags_follow_existing_flags() -> None:
    flags = ["mask_disagrees", "clock_suspect"]
    results = reported(half(0, "before", "p", row=1), half(1, "after", "p", row=2, flags=flags, changed=[]))
    assert results[1]["flags"] == [*flags, "key_changed"]


def test_buckets_by_pair_key_give_what_the_whole_gives() -> None:
    rng = Random(1)
    rows = [
        half(at, rng.choice(("before", "after")), f"{rng.randrange(90)}" if rng.random() < 0.9 else None,
             row=rng.randrange(2), says=rng.randrange(2), mask=rng.choice(("", "02", None)))
        for at in range(200)
    ]  # fmt: skip
    whole = reported(*rows)
    assert {result["disposition"] for result in whole.values()} == {
        "change",
        "paired",
        "duplicate",
        "quarantined",
    }
    buckets: dict[bytes | None, list[Row]] = {}
    for row in rows:
        buckets.setdefault(row["pair_key"], []).append(row)
    parts: dict[int, Row] = {}
    for bucket in buckets.values():
        parts |= reported(*bucket)
    assert parts == whole


def test_a_batch_of_sparks_is_taken_as_it_is() -> None:
    """Spark names list items `element` and declares parts as not nullable."""
    rows = [
        half(0, "before", "p", before_unknown_columns=[("note", "unavailable")]),
        half(1, "after", "p", changed=["a"], flags=["clock_suspect"]),
    ]
    batch = pa.RecordBatch.from_pylist(rows, decoded_schema(CONTRACT))
    names = pa.list_(pa.field("element", pa.string(), nullable=False))
    gaps = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))
    kinds = {"changed": names, "flags": names, "before_unknown_columns": gaps, "after_unknown_columns": gaps}
    cells = [
        column.cast(kinds.get(name, column.type))
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    of_spark = pa.RecordBatch.from_arrays(cells, batch.schema.names)
    assert not of_spark.schema.equals(batch.schema)
    assert joined(of_spark, PLAN).equals(joined(batch, PLAN))
