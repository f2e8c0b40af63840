"""Each rule passes a clean run and finds its own fault."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from changeledger.audit import applied, dispositions, ids, key_rules, record_sums, repeated_halves
from changeledger.audit.columns import built_schema
from changeledger.audit.conservation import Balance, balances, received, uneven
from changeledger.audit.narrow_rows import CHANGE, NARROW, NOT_CHECKED, RULE, Broken, Judged, narrow
from changeledger.kernels.arrow import RECORD
from tests.audit.tables import (
    AT,
    CLEAN,
    CONTRACT,
    broken,
    change,
    changes,
    deleted,
    entries,
    hashed,
    interval,
    key,
    of_ids,
    of_keys,
    record,
    records,
    row_record,
    table,
    violated,
)

FAULTS = [
    ("mask_agrees_with_images", {"flags": ["mask_disagrees"]}),
    ("operation_has_its_images", {"after": None}),
    ("operation_has_its_images", {"after": key(None, None)}),
    ("operation_has_its_images", {"after": key(8)}),
    ("operation_has_its_images", {"operation": "delete", "before": key(8), "after": None}),
    ("operation_has_its_images", {"operation": "update", "before": key(8)}),
    ("operation_has_its_images", {"operation": "update", "before": key(9), "previous_key": key(8)}),
    ("operation_has_its_images", {"before": key(9)}),
    ("operation_has_its_images", {"operation": "snapshot", "before": key(9)}),
    ("operation_has_its_images", {"operation": "delete", "before": key(9)}),
    ("operation_has_its_images", {"operation": "delete", "after": None}),
    ("operation_has_its_images", {"operation": "update"}),
    ("operation_has_its_images", {"operation": "update", "flags": None}),
    ("operation_has_its_images", {"operation": "update", "before": key(9), "after": None}),
    (
        "operation_has_its_images",
        {"operation": "update", "before": key(9, None), "flags": ["before_unknown"]},
    ),
    ("operation_has_its_images", {"operation": "truncate"}),
    ("operation_has_its_images", {"operation": "truncate", "before": key(9), "after": None}),
    ("operation_has_its_images", {"operation": "merge"}),
    ("key_not_null", {"key": None}),
    ("key_not_null", {"key": key(9, None)}),
    ("key_not_null", {"change_id": None}),
    ("key_not_null", {"sort_key": None}),
    ("key_not_null", {"committed_at": None}),
    ("key_not_null", {"source_position": None}),
    ("lsn_width", {"commit_lsn": bytes(9)}),
    ("lsn_width", {"change_lsn": bytes(11)}),
    ("order_strict", {"key": key(1), "after": key(1), "sort_key": b"\x01"}),
]


def test_clean_changes_violate_nothing() -> None:
    rows = of_keys(changes(*CLEAN))
    assert violated(rows) == {}
    assert rows.column("kind").to_pylist() == [CHANGE] * len(CLEAN)
    assert rows.column("change_id").null_count == len(CLEAN)
    assert len(of_ids(changes(*CLEAN))[NARROW]) == 0


def test_keys_with_one_hash_are_compared_by_value() -> None:
    # NULL adds nothing to a hash.
    second_null, first_null = interval(1, key=key(7, None)), interval(2, key=key(None, 7))
    violations = violated(of_keys(changes(), [second_null, first_null], [second_null, first_null]))
    assert violations == {"current_key_not_null": 2}


def test_no_changes_violate_nothing() -> None:
    assert len(of_keys(changes())) == 0


@pytest.mark.parametrize(("name", "fault"), FAULTS)
def test_a_fault_in_the_ledger_is_found_by_its_rule(name: str, fault: dict[str, Any]) -> None:
    # Two changes share a sort key.
    number = 2 if name == "order_strict" else 1
    assert violated(of_keys(changes(*CLEAN, change(9, **fault)))) == {name: number}


def test_broken_rows_show_where_they_are() -> None:
    (width,) = broken(of_keys(changes(*CLEAN, change(9, commit_lsn=b""))))["lsn_width"]
    assert width == {
        "key": '{"order":9,"rows":1}',
        "position": "shop.orders[0] 9",
        "change_id": "id9",
        "why": "a log sequence number is not 10 bytes wide",
    }
    order = broken(of_keys(changes(change(1), change(1, change_id="again"))))["order_strict"]
    assert [row["change_id"] for row in order] == ["id1", "again"]
    assert {row["why"] for row in order} == {"2 changes of the key have this position in the order"}


def test_a_change_without_an_operation_breaks_both_rules() -> None:
    broken_rules = violated(of_keys(changes(*CLEAN, change(9, operation=None))))
    assert broken_rules == {"operation_has_its_images": 1, "key_not_null": 1}


def test_changes_of_two_keys_may_share_a_position() -> None:
    """Debezium's halves of a key update do. Both keys are suspects, each for its own two changes."""
    shared = change(2, change_id="shared", sort_key=change(1)["sort_key"])
    twice = [change(at, change_id=f"{at} {number}") for at in (1, 2) for number in (1, 2)]
    ids_of_broken = [row["change_id"] for row in broken(of_keys(changes(*twice, shared)))["order_strict"]]
    assert ids_of_broken == ["1 1", "1 2", "2 1", "2 2"]


HISTORY = [
    interval(1, AT),
    interval(1),
    interval(2),
    interval(3, _is_deleted=True),
    interval(4, _window_id="x"),
]
CURRENT = [interval(1), interval(2), interval(4)]
BUILT_FAULTS = [
    ("interval_forward", [*HISTORY, interval(2, AT - timedelta(minutes=1))], CURRENT),
    ("interval_forward", [*HISTORY, interval(2, AT, _next_sort_key=b"\x01")], CURRENT),
    ("interval_forward", [*HISTORY, interval(2, AT, _next_sort_key=b"\x00")], CURRENT),
    ("one_open_interval", [*HISTORY, interval(1, _is_deleted=True)], CURRENT),
    # The second interval is of an earlier run, but the key is one of this run's.
    ("one_open_interval", [*HISTORY, interval(2, _window_id="x", _is_deleted=True)], CURRENT),
    ("current_equals_open_history", HISTORY, CURRENT[:2]),
    ("current_equals_open_history", HISTORY, [*CURRENT, interval(3)]),
    ("current_equals_open_history", HISTORY, [*CURRENT, interval(5)]),
    # The row published before, which the run has not replaced.
    ("current_equals_open_history", HISTORY, [*CURRENT[:2], interval(4, _change_id="before")]),
    ("current_key_unique", HISTORY, [*CURRENT, interval(2)]),
    (
        "current_key_not_null",
        [*HISTORY, interval(5, key=key(5, None))],
        [*CURRENT, interval(5, key=key(5, None))],
    ),
]


def test_clean_built_tables_violate_nothing() -> None:
    assert len(of_keys(changes(), HISTORY, CURRENT)) == 0


@pytest.mark.parametrize(("name", "history", "current"), BUILT_FAULTS)
def test_a_fault_in_what_would_be_published_is_found_by_its_rule(
    name: str, history: list[Any], current: list[Any]
) -> None:
    assert violated(of_keys(changes(), history, current)) == {name: 1}


def test_a_current_row_with_other_values_than_its_interval_is_found() -> None:
    """Of a suspect; `test_applied` has what makes a key a suspect."""
    schema = built_schema(CONTRACT)
    parts = {
        key_rules.CHANGES: changes(),
        key_rules.HISTORY: table(schema, [interval(1, cells=1), interval(2, cells=2)]),
        key_rules.CURRENT: table(schema, [interval(1, cells=1), interval(2, cells=7)]),
        **{side: applied.shown(kind, CONTRACT).empty_table() for side, kind in applied.SIDES.items()},
    }
    (row,) = broken(key_rules.of_keys(parts, CONTRACT.table)[NARROW])["current_equals_open_history"]
    assert (row["key"], row["why"]) == (
        '{"order":2,"rows":1}',
        "the current row has other values than the open interval",
    )


def test_changes_of_a_key_that_the_history_does_not_have_are_found() -> None:
    """A key with changes but without history would lose its rows silently.

    History and current rows agree that there is none.
    """
    lost = change(1, operation="update", before=key(1), sort_key=b"\x09")
    rows = changes(*CLEAN, lost)
    kept = [row for row in deleted(rows) if row["key"] != key(1)]
    (row,) = broken(of_keys(rows, kept))["one_open_interval"]
    assert row == {
        "key": '{"order":1,"rows":1}', "position": "shop.orders[0] 1", "change_id": "id1",
        "why": "the key has changes but no open interval",
    }  # fmt: skip
    for is_deleted in (False, True):
        closed = [*kept, interval(1, AT, _is_deleted=is_deleted)]
        assert violated(of_keys(rows, closed)) == {"one_open_interval": 1}


def test_a_published_change_that_was_read_again_in_another_text_is_named() -> None:
    shared = interval(2, AT + timedelta(minutes=1), _next_sort_key=interval(2)["_sort_key"])
    (row,) = broken(of_keys(changes(), [*HISTORY, shared], CURRENT))["interval_forward"]
    assert row["why"].startswith("another change of the key has the same position in the order")


def test_broken_rows_of_what_is_built_show_where_they_are() -> None:
    breaks = broken(of_keys(changes(), [*HISTORY, interval(1), interval(2, AT - timedelta(1))], CURRENT[:2]))
    (twice,), (lost,), (backward,) = (
        breaks[rule] for rule in ("one_open_interval", "current_equals_open_history", "interval_forward")
    )
    assert (twice["key"], twice["change_id"]) == ('{"order":1,"rows":1}', "id1")
    assert twice["why"] == "the key has 2 open intervals"
    assert (lost["key"], lost["why"]) == (
        '{"order":4,"rows":1}',
        "the key has an open interval but no current row",
    )
    assert (backward["key"], backward["change_id"]) == ('{"order":2,"rows":1}', "id2")


def published(change_id: str, where: dict[str, Any]) -> dict[str, Any]:
    return {"id": change_id, "source_position": where, "hash": hashed(where)}


def test_an_id_twice_in_a_run_or_published_already() -> None:
    rows = changes(*CLEAN, change(9, change_id="id1"))
    compared = of_ids(rows, [published("id2", record(2))])[NARROW]
    assert [(row["position"], row["why"]) for row in broken(compared)["change_id_unique"]] == [
        ("shop.orders[0] 1", "2 changes of this run have this id"),
        ("shop.orders[0] 2", "a published change has this id"),
        ("shop.orders[0] 9", "2 changes of this run have this id"),
    ]


def test_a_half_beside_the_update_that_has_joined_it() -> None:
    joined = {"paired_change_id": "id2", "paired_source_position": record(8)}
    rows = changes(change(1, operation="update", before=key(7), **joined), change(2))
    (row,) = broken(of_ids(rows)[NARROW])["change_id_unique"]
    assert (row["change_id"], row["why"]) == ("id2", "an update of this run has joined this change")


def test_a_published_half_that_the_run_joins_is_no_repetition() -> None:
    """The half's record belongs to the earlier run."""
    rows = changes(
        change(
            1, operation="update", before=key(7), paired_change_id="deleted", paired_source_position=record(8)
        ),
        change(2, paired_change_id=None, paired_source_position=record(3)),
    )
    halves = [published("deleted", record(8)), published("other", record(5))]
    compared = of_ids(rows, halves)
    assert len(compared[NARROW]) == 0
    assert compared[ids.JOINED].to_pylist() == [{"id": "deleted"}]
    earlier = [
        (row["source_position"], row["disposition"], row["times"])
        for row in compared[ids.EARLIER].to_pylist()
    ]
    assert earlier == [(record(8), "paired", -1)]
    # The half came again at another position in this run, so its record is this run's.
    assert len(of_ids(rows, [published("deleted", record(6))])[ids.EARLIER]) == 0


def again(where: dict[str, Any], change_id: str) -> dict[str, Any]:
    return {"id": change_id, "source_position": where}


def test_duplicates_of_a_change_that_is_there_are_no_loss() -> None:
    rows = changes(change(1), change(2, paired_change_id="deleted", paired_source_position=record(3)))
    repeats = [again(record(4), "id1"), again(record(5), "deleted"), again(record(6), "published")]
    assert len(of_ids(rows, (), repeats, ["published"])[NARROW]) == 0


def test_duplicates_that_leave_no_change_are_found() -> None:
    breaks = broken(of_ids(changes(change(1)), (), [again(record(9), "id9")])[NARROW])
    (gone,) = breaks["duplicates_leave_one"]
    assert (gone["position"], gone["change_id"]) == ("shop.orders[0] 9", "id9")


OF_LINES = {"source": "lines__ct"}


@pytest.mark.parametrize(
    ("half", "lost"),
    [
        (row_record("1B", 1), 0), (row_record("2B", 1), 1), (record(1, "orders__ct"), 1),
        # An update of the ledger is paired with this one, but not with that of another change table.
        (row_record("3B", 1), 0), (row_record("3B", 1) | OF_LINES, 1),
    ],
)  # fmt: skip
def test_a_repeated_half_stands_where_the_first_one_does(half: dict[str, Any], lost: int) -> None:
    joined = changes(change(1, paired_source_position=row_record("3B")))
    of_ledger = repeated_halves.records_of(joined.combine_chunks().to_batches()[0])
    parts = {
        repeated_halves.HALVES: records(half),
        repeated_halves.ACCOUNTED: pa.concat_tables(
            [records(row_record("1B"), record(1, "orders__ct")), pa.Table.from_batches([of_ledger])]
        ),
    }
    breaks = repeated_halves.of_places(parts, CONTRACT.table)[NARROW]
    assert violated(breaks) == ({"duplicates_leave_one": lost} if lost else {})


def test_the_books_name_lost_and_doubled_records_by_source() -> None:
    read = [(record(n), record_sums.READ) for n in range(4)] + [(record(0, "shop.lines"), record_sums.READ)]
    accounted = [
        (record(0), "change"),
        (record(1), "change"),
        (record(1), "duplicate"),
        (record(2), "tombstone"),
        (record(7), "change"),
        (record(0, "shop.lines"), "quarantined"),
        (record(6), "change"),
    ]
    # Halves whose records an earlier run counted.
    half = record(6, "shop.lines")
    accounted.append((half, "paired"))
    back = entries((record(6), "change"), (half, "paired"), times=-1)
    whole = pa.concat_tables([entries(*read, *accounted), back])
    # The entries may be cut anywhere.
    parts = [record_sums.sums(chunk) for chunk in whole.to_batches(max_chunksize=3)]
    sums = record_sums.added(pa.Table.from_batches(parts)).to_pylist()
    assert uneven(sums) == ["shop.orders"]
    kept = record_sums.faulty({record_sums.ENTRY: whole}, ["shop.lines", "shop.orders"])
    faults = record_sums.faults(kept[record_sums.FAULTS].to_pylist())
    assert balances(sums, faults) == [
        Balance("shop.lines", 1, {"quarantined": 1}),
        # 3 is lost, 1 is accounted for twice, and 7 was never read.
        Balance("shop.orders", 4, {"change": 3, "duplicate": 1, "tombstone": 1}, lost=1, doubled=2),
    ]
    assert faults["shop.orders"].samples == (
        "shop.orders[0] 1 (read 1, accounted for 2: change, duplicate)",
        "shop.orders[0] 3 (read 1, accounted for 0: nothing)",
        "shop.orders[0] 7 (read 0, accounted for 1: change)",
    )


def test_a_lost_record_and_a_doubled_one_do_not_make_up_for_each_other() -> None:
    rows = entries((record(1), ""), (record(2), ""), (record(1), "change"), (record(1), "change"))
    sums = record_sums.sums(rows.combine_chunks().to_batches()[0])
    assert uneven(sums.to_pylist()) == ["shop.orders"]
    (fault,) = record_sums.faulty({record_sums.ENTRY: rows}, ["shop.orders"])[record_sums.FAULTS].to_pylist()
    assert (fault["lost"], fault["doubled"]) == (1, 1)
    # Faults of two buckets.
    assert record_sums.faults([fault, fault])["shop.orders"][:2] == (2, 2)


def test_a_record_without_a_source_and_a_disposition_is_counted() -> None:
    cells = [pa.array([record(1, None)], RECORD), pa.array([None], pa.string())]
    rows = pa.RecordBatch.from_arrays(cells, ["source_position", "disposition"])
    sums = record_sums.sums(record_sums.of_dispositions(rows)).to_pylist()
    assert uneven(sums) == ["(no source)"]
    assert balances(sums, {}) == [Balance("(no source)", 0, {"(none)": 1})]


def test_raw_rows_are_counted_by_the_source_of_their_window() -> None:
    rows = entries((record(1), ""), (record(2), ""), (record(3), ""))
    at = rows.schema.get_field_index("received")
    rows = rows.set_column(at, "received", pa.array(["shop.orders[0]", "shop.orders[0]", None]))
    assert received(record_sums.sums(rows.combine_chunks().to_batches()[0]).to_pylist()) == {
        "shop.orders[0]": 2
    }


def test_ledger_rows_account_for_their_records_and_those_that_they_are_paired_with() -> None:
    rows = changes(change(1, paired_source_position=row_record("1B")), change(2))
    accounted = record_sums.of_ledger(rows.combine_chunks().to_batches()[0]).to_pylist()
    assert [(row["source_position"], row["disposition"], row["times"]) for row in accounted] == [
        (record(1), "change", 1), (record(2), "change", 1), (row_record("1B"), "paired", 1),
    ]  # fmt: skip


def test_rows_beside_the_ledger_are_counted_by_kind() -> None:
    counted = [
        ("dbo.t", "duplicate", "delivered_again", "id1"),
        ("dbo.t", "duplicate", "delivered_again", None),
        ("dbo.t", "duplicate", "segment_again", "segments 1, 2 of x"),
        ("dbo.t", "control", None, None),
    ]
    names = ("table", "disposition", "reason", "detail")
    rows = table(dispositions.ROWS, [dict(zip(names, cells, strict=True)) for cells in counted])
    (batch,) = rows.combine_chunks().to_batches()
    assert sum(kind["n"] for kind in dispositions.kinds(batch).to_pylist()) == len(counted)
    assert dispositions.named_duplicates(batch).column("detail").to_pylist() == ["id1"]
    assert len(dispositions.repeated_halves(batch)) == 1
    assert len(dispositions.others(batch)) == 3


@pytest.mark.parametrize("redact", [False, True])
def test_records_that_break_a_rule(redact: bool) -> None:
    said = [
        ("dbo.t", "quarantined", "bad_json", "Ann"),
        (None, "quarantined", "before_without_after", None),
        ("dbo.t", "quarantined", "incompatible_shape", None),
    ]
    names = ("table", "disposition", "reason", "detail")
    rows = [
        {**dict(zip(names, cells, strict=True)), "source_position": record(n)} for n, cells in enumerate(said)
    ]
    (batch,) = table(dispositions.ROWS, rows).to_batches()
    breaks = broken(pa.table(dispositions.of_records(batch, "feed shop", redact=redact)))
    assert [row["why"] for row in breaks["no_quarantined_records"]] == [
        "dbo.t: bad_json" if redact else "dbo.t: bad_json: Ann", "before_without_after",
        "dbo.t: incompatible_shape",
    ]  # fmt: skip
    rules = ("no_quarantined_records", "no_unpaired_images", "shapes_fit_contracts")
    positions = {rule: [row["position"] for row in breaks[rule]] for rule in rules}
    places = [f"shop.orders[0] {n}" for n in range(3)]
    assert positions == dict(zip(rules, (places, places[1:2], places[2:]), strict=True))
    assert breaks.keys() == set(rules)


def test_a_rule_that_cannot_be_checked_has_a_row_that_says_so() -> None:
    def fails() -> Broken:
        raise KeyError("absent")

    of = Judged("dbo.t", changes(change(1)), "key", "source_position", "change_id", CHANGE)
    rows = narrow(of, {"lsn_width": fails}).to_pylist()
    assert [(row["kind"], row["lsn_width"]) for row in rows] == [
        (CHANGE, None), (RULE, f"{NOT_CHECKED}KeyError: 'absent'"),
    ]  # fmt: skip
