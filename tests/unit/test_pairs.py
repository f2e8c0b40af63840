"""The halves of updates, and of updates of a key."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from changeledger import change
from changeledger.contract import Column, Contract
from changeledger.reconcile import pairs

CONTRACT = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, nullable=False, key_position=1),
        Column(name="a", type="int", ordinal=2),
        Column(name="note", type="nvarchar(max)", ordinal=3),
    ),
)
HALVES = (
    "key struct<id:int>, previous_key struct<id:int>, before struct<id:int,a:int>, "
    "after struct<id:int,a:int>, before_gaps map<string,string>, "
    f"record {change.RECORD_TYPE}, part string, pair_key binary, disposition string, reason string, "
    "detail string, flags array<string>, mask string"
)


def half(
    at: int,
    part: str,
    pair: str | None,
    disposition: str = "change",
    row: int = 1,
    says: int | None = None,
    mask: str = "02",
) -> tuple[Any, ...]:
    image = (at, at) if says is None else (says, says)
    before, after = (image, None) if part == "before" else (None, image)
    key, record = None if pair is None else pair.encode(), ("t", 0, at, None)
    return (row,), None, before, after, None, record, part, key, disposition, None, None, None, mask


def joined(spark: SparkSession, *rows: tuple[Any, ...]) -> dict[int, tuple[Any, ...]]:
    found = pairs.join_images(spark.createDataFrame(list(rows), HALVES)).collect()
    assert len(found) == len(rows)
    return {
        r["record"]["offset"]: (
            r["disposition"], r["reason"], r["before"] and r["before"]["id"], r["after"] and r["after"]["id"],
            r["paired_record"] and r["paired_record"]["offset"], r["flags"],
        )
        for r in found
    }  # fmt: skip


def test_halves_are_found_by_their_position(spark: SparkSession) -> None:
    rows = [
        half(0, "before", "p"), half(1, "before", "q"), half(2, "after", "q"), half(3, "whole", None),
        half(4, "after", "p"), half(5, "after", "alone"), half(6, "before", "lonely"),
        # Its other half cannot be read: each goes its own way.
        half(7, "before", "bad", "quarantined"), half(8, "after", "bad"),
    ]  # fmt: skip
    expected = {
        0: ("paired", None, 0, None, None, None),
        1: ("paired", None, 1, None, None, None),
        2: ("change", None, 1, 2, 1, None),
        3: ("change", None, None, 3, None, None),
        4: ("change", None, 0, 4, 0, None),
        5: ("change", None, None, 5, None, ["before_unknown"]),
        6: ("quarantined", "before_without_after", 6, None, None, None),
        7: ("quarantined", None, 7, None, None, None),
        8: ("change", None, None, 8, None, ["before_unknown"]),
    }
    assert joined(spark, *rows) == expected
    assert joined(spark, *reversed(rows)) == expected


def test_a_pair_of_two_keys_moves_its_row(spark: SparkSession) -> None:
    halves = [half(0, "after", "p", row=2), half(1, "before", "p", row=1), half(2, "after", "q", row=3)]
    found = pairs.join_images(spark.createDataFrame(halves, HALVES)).collect()
    told = {r["record"]["offset"]: (r["previous_key"], r["flags"]) for r in found}
    assert told == {0: (Row(id=1), ["key_changed"]), 1: (None, None), 2: (None, ["before_unknown"])}


def test_a_half_that_comes_again_is_a_duplicate_of_the_first(spark: SparkSession) -> None:
    rows = [
        half(0, "before", "p", says=1), half(1, "after", "p", says=2),
        half(2, "before", "p", says=1), half(3, "after", "p", says=2),
        half(4, "before", "q", says=1), half(5, "after", "q", says=2), half(6, "after", "q", says=2),
        half(7, "before", "lonely", says=1), half(8, "before", "lonely", says=1),
    ]  # fmt: skip
    again = ("duplicate", "delivered_again")
    found = joined(spark, *rows)
    assert {at: told[:2] for at, told in found.items()} == {
        0: ("paired", None), 1: ("change", None), 2: again, 3: again,
        4: ("paired", None), 5: ("change", None), 6: again,
        7: ("quarantined", "before_without_after"), 8: again,
    }  # fmt: skip
    assert found[1] == ("change", None, 1, 2, 0, None)
    assert joined(spark, *reversed(rows)) == found


def test_halves_that_nothing_tells_apart_are_quarantined(spark: SparkSession) -> None:
    rows = [half(0, "before", "p"), half(1, "after", "p"), half(2, "before", "p"), half(3, "after", "p")]
    assert {told[:2] for told in joined(spark, *rows).values()} == {("quarantined", "ambiguous_pair")}


def test_halves_of_one_update_have_one_mask(spark: SparkSession) -> None:
    rows = [
        half(0, "before", "p", mask="02"), half(1, "after", "p", mask="06"),
        # Where before records have none.
        half(2, "before", "q", mask=""), half(3, "after", "q", mask="06"),
    ]  # fmt: skip
    found = joined(spark, *rows)
    assert {at: found[at][-1] for at in (1, 3)} == {1: ["mask_disagrees"], 3: None}


def ledger(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    columns = change.ledger_columns(CONTRACT)
    return spark.createDataFrame(
        [tuple(row.get(name) for name, _ in columns) for row in rows],
        ", ".join(f"{change.quoted(n)} {kind}" for n, kind in columns),
    )


def told(
    name: str, operation: str, image: tuple[Any, ...], place: int, at: int, **members: Any
) -> dict[str, Any]:
    side = "before" if operation == "delete" else "after"
    return {
        "change_id": name, "operation": operation, "key": image[:1], side: image, "commit_lsn": bytes(10),
        "change_lsn": bytes([place]) * 10, "sort_key": bytes([place, at]), "record": ("t", 0, at, None),
        **members,
    }  # fmt: skip


def test_delete_and_insert_at_one_position_are_one_update(spark: SparkSession) -> None:
    new = ledger(
        spark,
        told("d1", "delete", (1, 5, None), 1, 1, before_gaps={"note": "unavailable"}),
        told("i1", "insert", (2, 6, "n"), 1, 2),
        # An update that mentions the key without changing it.
        told("d2", "delete", (3, 5, "n"), 2, 3),
        told("i2", "insert", (3, 6, "n"), 2, 4),
        # An insert before the delete is no update.
        told("i3", "insert", (4, 1, "n"), 3, 5),
        told("d3", "delete", (4, 1, "n"), 3, 6),
        # Two of a kind: which belongs to which is not known.
        told("d4", "delete", (5, 1, "n"), 4, 7),
        told("d5", "delete", (6, 1, "n"), 4, 8),
        told("i4", "insert", (7, 1, "n"), 4, 9),
        told("u", "update", (8, 1, "n"), 1, 9),
        told("i5", "insert", (9, 1, "n"), 5, 9),
    )
    halves = pairs.halves_of_key_updates(new)
    assert {tuple(row) for row in halves.collect()} == {("d1", "i1"), ("d2", "i2")}
    found = {row["change_id"]: row for row in pairs.key_updates(new, halves, CONTRACT).collect()}
    moved, kept = found.pop("i1"), found.pop("i2")
    assert found == {}
    assert (moved["operation"], moved["key"]["id"], moved["previous_key"]["id"]) == ("update", 2, 1)
    assert tuple(moved["before"]) == (1, 5, None)
    assert (moved["before_gaps"], moved["changed"]) == ({"note": "unavailable"}, ["id", "a"])
    assert (moved["flags"], moved["paired_change_id"]) == (["key_changed"], "d1")
    assert moved["paired_record"]["offset"] == 1
    assert (kept["previous_key"], kept["flags"], kept["changed"]) == (None, None, ["a"])
