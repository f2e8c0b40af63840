"""Compares two feeds of one log, change by change: every fault is found in its place, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, timedelta
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from changeledger.compare.columns import Columns, not_compared
from changeledger.compare.counts import Counts
from changeledger.compare.positions import UNKNOWN, Positions
from changeledger.compare.reach import Reach
from changeledger.compare.verdicts import AGREEING, CLASSES, EXPECTED, VERDICTS
from changeledger.kernels.arrow import GAPS, column
from changeledger.kernels.publishing import PublishChanges, key_id
from changeledger.kernels.rows import as_batch
from changeledger.model import change
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ContractError
from changeledger.model.publishing import PublishRule
from changeledger.stages.comparison.matching import Method
from sourcelab.log import Change, Log, Transaction, simulate
from sourcelab.tables import Table
from tests import key_moves
from tests.compare.sides import BY_KEY, BY_POSITION, compared
from tests.injected import VERDICT, effects, with_faults
from tests.key_moves import Transaction as Statements
from tests.ledger_rows import PLAIN, Manner, apart, changes, contract_of, joined, rows
from tests.reconcile import tables
from tests.reconcile.tables import LedgerRow

SEEDS = range(10)
by_either = pytest.mark.parametrize("method", [BY_POSITION, BY_KEY], ids=["by position", "by key"])


class Finding(NamedTuple):
    """A finding. `change`: the serial of the wrong change in the log."""

    place: bytes
    verdict: str
    columns: tuple[str, ...]
    change: int


def ledger(log: Log, table: Table, manner: Manner = PLAIN, feed: str = "feed") -> pa.Table:
    return tables.ledger(rows(log, table, manner, feed), contract_of(table))


def an_insert() -> tuple[Contract, LedgerRow]:
    """Returns the contract of a table, and its ledger's first row."""
    log = simulate(3, 25)
    table = log.table("dbo.customers")
    return contract_of(table), tables.rows_of(ledger(log, table).slice(0, 1))[0]


def verdicts(
    reference: Log, other: Log, table: Table, manner: Manner = PLAIN, by_position: bool = True
) -> tuple[Counter[str], list[Finding]]:
    """Returns the number of pairs by verdict or class, and the findings."""
    contract = contract_of(table)
    sides = (ledger(reference, table, feed="one"), ledger(other, table, manner, feed="other"))
    result = compared(*((side, contract) for side in sides), BY_POSITION if by_position else BY_KEY)
    assert in_spans(result.counts) == of_verdicts(result.counts)
    words = [word for word in (*VERDICTS, *CLASSES) if word != EXPECTED]
    counts = Counter({word: result.counts.counts[word] for word in words if result.counts.counts[word]})
    serials = {
        side: [change.serial for _, change in changes(log, table)]
        for side, log in (("change_id", reference), ("other_change_id", other))
    }

    def serial(row: dict[str, str | None]) -> int:
        side = "other_change_id" if row["change_id"] is None else "change_id"
        return serials[side][int(str(row[side]).split("-")[1])]

    return counts, sorted(
        Finding(row["commit_lsn"], row["verdict"], tuple(c["name"] for c in row["cells"] or ()), serial(row))
        for row in result.findings
    )


def in_spans(counts: Counts) -> tuple[int, int]:
    """Returns how many effects agree, and how many there are, in the chart of the agreement over time."""
    return sum(agreeing for agreeing, _ in counts.spans), sum(n for _, n in counts.spans)


def of_verdicts(counts: Counts) -> tuple[int, int]:
    agreeing, in_all = (sum(counts.counts[verdict] for verdict in some) for some in (AGREEING, VERDICTS))
    return agreeing, in_all


def test_effects_that_agree_only_when_matched_again_agree_in_the_picture() -> None:
    """Matched by key, the update that one feed has lost shifts the numbers of all later ones."""
    log = simulate(5, 30)
    table = log.table("dbo.customers")
    contract, all_rows = contract_of(table), ledger(log, table)
    keys = [tuple(key.values()) for key in all_rows.column("key").to_pylist()]
    often = Counter(keys).most_common(1)[0][0]
    second = keys.index(often, keys.index(often) + 1)
    without = pa.concat_tables([all_rows.slice(0, second), all_rows.slice(second + 1)])
    counts = compared((all_rows, contract), (without, contract), BY_KEY).counts
    agreeing, in_all = of_verdicts(counts)
    assert (counts.counts["missing"], in_all - agreeing) == (1, 1)
    assert in_spans(counts) == (agreeing, in_all)


def _all(log: Log) -> list[tuple[Transaction, Change]]:
    return [(transaction, change) for transaction in log.transactions for change in transaction.changes]


def test_feeds_with_the_same_changes_are_equal() -> None:
    log = joined([apart(simulate(seed, 25), seed) for seed in SEEDS])
    for table in log.tables:
        counts, findings = verdicts(log, log, table)
        assert findings == []
        assert counts == Counter(equal=len(effects(_all(log), table)))


def test_each_cell_that_is_not_alike_is_seen() -> None:
    log = simulate(3, 25)
    table = log.table("dbo.customers")
    contract = contract_of(table)
    all_rows = ledger(log, table)
    reported = all_rows.filter(pc.equal(all_rows.column("operation"), "insert"))
    inserts = len(reported)
    assert inserts > 5

    def unlike(other: pa.Table) -> int:
        counts, _ = compared((reported, contract), (other, contract))
        return sum(counts.counts[verdict] for verdict in VERDICTS if verdict != "equal")

    assert unlike(reported) == 0
    # Skips the key: without its value, nothing would be matched.
    for name in (n for n in table.names if n not in table.key):
        after = column(reported, "after")
        at = after.type.get_field_index(name)
        cells = after.flatten()
        known = len(cells[at]) - cells[at].null_count
        cells[at] = pa.nulls(inserts, cells[at].type)
        without = reported.set_column(
            reported.schema.get_field_index("after"),
            reported.schema.field("after"),
            pa.StructArray.from_arrays(cells, fields=list(after.type)),
        )
        assert unlike(without) == known, name
        # NULL differs from unknown.
        gaps = pa.array([[(name, "unavailable")]] * inserts, GAPS)
        unknown = without.set_column(
            reported.schema.get_field_index("after_unknown_columns"), "after_unknown_columns", gaps
        )
        assert unlike(unknown) == inserts, name
    updates = pa.array(["update"] * inserts)
    assert (
        unlike(reported.set_column(reported.schema.get_field_index("operation"), "operation", updates))
        == inserts
    )
    assert unlike(reported.slice(0, inserts - 2)) == 2
    assert unlike(pa.concat_tables([reported, reported.slice(0, 1)])) == 1


def test_what_tools_write_in_their_own_way_is_expected() -> None:
    log = simulate(4, 40)
    table = log.table("sales.orders")
    everything = len(effects(_all(log), table))
    counts, findings = verdicts(log, log, table, Manner(parts_key_updates=True))
    assert findings == []
    # A key update is compared as delete and insert, so no difference is left.
    assert counts == Counter(equal=everything)
    counts, findings = verdicts(log, log, table, Manner(key_only_deletes=True, unsent=frozenset({"weight"})))
    assert findings == []
    assert counts == Counter(not_captured=everything)


def test_a_lost_update_of_a_value_whose_old_one_is_not_known_is_no_update_of_nothing() -> None:
    """A lost update is missing, even if no other column than a large value changed.

    Tools send only the new value of a large column.
    """
    contract, insert = an_insert()
    image = tuple(insert["after"].values())
    update = {**insert, "operation": "update", "before": image, "after": image, "changed": []}
    nothing = tables.ledger([], contract)

    def counted(**members: Any) -> Counter[str]:
        only = tables.ledger([{**update, **members}], contract)
        counts = compared((only, contract), (nothing, contract)).counts.counts
        return Counter({word: counts[word] for word in ("missing", "no_op_update") if counts[word]})

    unknown = {"notes": "unavailable"}
    assert counted() == Counter(no_op_update=1)
    assert counted(before_unknown_columns=unknown) == Counter(missing=1)
    # The tool states that the value stayed.
    both = {"before_unknown_columns": unknown, "after_unknown_columns": unknown}
    assert counted(**both) == Counter(no_op_update=1)
    # Without a before image, the mask names no large value, changed or not (Qlik).
    assert counted(before=None) == Counter(missing=1)
    assert counted(before=None, after_unknown_columns=unknown) == Counter(no_op_update=1)


@pytest.mark.parametrize("faulty", [False, True], ids=["the same", "one lost"])
@by_either
def test_an_update_that_changes_nothing_moves_no_others(method: Method, faulty: bool) -> None:
    """The update is in one transaction, in one tool only. Images do not always tell which update is which."""
    contract, insert = an_insert()
    before = tuple(insert["after"].values())
    after = tuple((insert["after"] | {"credit": insert["after"]["credit"] + 1}).values())

    def updates(feed: str, *images: tuple[Any, Any], **members: Any) -> tuple[pa.Table, Contract]:
        rows = [
            {**insert, **members, "operation": "update", "before": old, "after": new,
             "change_id": f"{feed}-{at}", "sort_key": bytes([at]), "changed": ["credit"][old == new :]}
            for at, (old, new) in enumerate(images)
        ]  # fmt: skip
        return tables.ledger(rows, contract), contract

    gaps = {"credit": "not_captured"}
    unsent = {"before_unknown_columns": gaps, "after_unknown_columns": gaps}
    steps = [(before, before), (before, after), (after, after), (after, before)]
    reference = updates("one", *steps)
    other = updates("other", *(steps[at] for at in ((1,) if faulty else (1, 3))))
    for sides in ((reference, other), (other, reference)):
        result = compared(*sides, method)
        verdicts = [row["verdict"] for row in result.findings]
        assert verdicts == (["missing" if sides[0] is reference else "extra"] if faulty else [])
    if not faulty:
        other = updates("other", (before, before), (before, before), **unsent)
        result = compared(reference, other, method)
        assert (result.findings, result.counts.counts["no_op_update"]) == ([], 2)


def test_a_lost_update_whose_mask_is_empty_though_its_images_differ_is_missing() -> None:
    """Qlik sends masks of `00` with updates. The images tell what an update did."""
    contract, insert = an_insert()
    after = insert["after"] | {"credit": insert["after"]["credit"] + 1}
    images = {"before": tuple(insert["after"].values()), "after": tuple(after.values())}
    update = {**insert, **images, "operation": "update", "changed": []}
    only, nothing = tables.ledger([update], contract), tables.ledger([], contract)
    for sides, verdict in (((only, nothing), "missing"), ((nothing, only), "extra")):
        counts = compared(*((side, contract) for side in sides)).counts.counts
        assert (counts[verdict], counts["no_op_update"]) == (1, 0)


def test_without_lsns_keys_and_their_order_match() -> None:
    log = simulate(5, 30)
    table = log.table("dbo.customers")
    counts, findings = verdicts(log, log, table, Manner(knows_lsn=False), by_position=False)
    assert (set(counts), findings) == ({"equal"}, [])


@pytest.mark.parametrize("has_ids", [True, False])
def test_by_key_transactions_of_one_second_are_not_one(has_ids: bool) -> None:
    """A row is deleted and inserted again. One tool's commit times are whole seconds."""
    precise = stated([[[(1, None)]], [[(None, 1)]], [[(1, 1)]]])
    for row in precise:
        row["committed_at"] = key_moves.AT + (row["committed_at"] - key_moves.AT) / 200
    rounded = [row | {"committed_at": row["committed_at"].replace(microsecond=0)} for row in precise]
    assert len({row["committed_at"] for row in rounded}) == 1
    if not has_ids:
        precise = [row | {"transaction_id": None} for row in precise]
        rounded = [row | {"transaction_id": ""} for row in precise]
    assert findings_between(precise, rounded, BY_KEY) == []
    assert findings_between(precise, rounded[:-1], BY_KEY) == ["extra"]


@by_either
def test_commit_times_that_no_rounding_explains_are_told(method: Method) -> None:
    """Commit times that differ by a server's offset to UTC, for example, are told.

    Otherwise the feeds are equal.
    """
    rows = stated([[[(1, 1)]], [[(2, None)]]])
    contract = key_moves.CONTRACT

    def counted(seconds: float | None) -> dict[str, int]:
        later = None if seconds is None else timedelta(seconds=seconds)
        shifted = [row | {"committed_at": later and row["committed_at"] + later} for row in rows]
        both = ((tables.ledger(side, contract), contract) for side in (rows, shifted))
        counts, findings = compared(*both, method)
        assert (findings, in_spans(counts)) == ([], (len(rows), len(rows)))
        return {name: n for name, n in counts.counts.items() if n}

    assert counted(5) == counted(-5) == counted(None) == {"equal": len(rows)}
    assert counted(7200) == counted(-5.1) == {"expected": len(rows), "commit_time": len(rows)}


def test_by_time_a_transaction_that_is_there_in_part_is_no_fault() -> None:
    """A feed that is behind may have only a part of its last transaction.

    Of an update written as delete and insert, it has only the delete.
    """
    updates = stated([[[(1, 1)], [(2, 2)]], [[(1, 1)]]])
    halves = as_halves(updates)
    ends = {"since_time": halves[0]["committed_at"], "until_time": halves[-1]["committed_at"]}
    at_the_end = Method(Reach(**{name: at.replace(tzinfo=UTC) for name, at in ends.items()}))
    assert halves[-2]["operation"] == change.DELETE
    assert findings_between(halves, halves[:-1], BY_KEY) == ["differs"]
    assert findings_between(halves, halves[:-1], at_the_end) == []


@pytest.mark.parametrize("kinds", [*([kind] for kind in VERDICT), list(VERDICT)], ids="-".join)
def test_every_fault_is_found_where_it_is_and_nothing_else(kinds: list[str]) -> None:
    """Faults one by one and all together, in the logs of many seeds."""
    logs = [apart(simulate(seed, 25), seed) for seed in SEEDS]
    corrupted = [with_faults(log, kinds, Random(seed)) for seed, log in zip(SEEDS, logs, strict=True)]
    reference, other = joined(logs), joined([reported for reported, _ in corrupted])
    injected = [fault for _, faults in corrupted for fault in faults]
    assert Counter(fault.kind for fault in injected) == dict.fromkeys(kinds, len(SEEDS))
    for table in reference.tables:
        expected = [
            Finding(place, VERDICT[fault.kind], (fault.column,) if fault.column else (), serial)
            for fault in injected
            for place, serial in effects(fault.changes, table)
        ]
        _, findings = verdicts(reference, other, table)
        assert findings == sorted(expected), table.name
        if kinds == ["lost"]:
            # With the sides swapped, the same changes are extra.
            _, findings = verdicts(other, reference, table)
            assert findings == sorted(fault._replace(verdict="extra") for fault in expected)


ONE_STATEMENT = (
    "swap", "swap and back in two", "shift, ascending", "shift, descending", "cycle of three",
    "cycle of three, the other way round", "cycle of three, from its middle",
)  # fmt: skip


def as_halves(rows: Sequence[LedgerRow], deletes_first: bool = True) -> list[LedgerRow]:
    """Splits each transaction's updates into deletes, then inserts, as SQL Server logs key updates."""
    parted: list[LedgerRow] = []
    for _, of_transaction in groupby(rows, itemgetter("commit_lsn")):
        whole = list(of_transaction)
        updates = [row for row in whole if row["operation"] == change.UPDATE]
        gone = [
            {**row, "operation": change.DELETE, "key": row.get("previous_key", row["key"]), "after": None}
            for row in updates
        ]
        come = [{**row, "operation": change.INSERT, "before": None} for row in updates]
        halves = [*gone, *come] if deletes_first else [*come, *gone]
        parted += [row for row in whole if row["operation"] != change.UPDATE] + halves
    return [
        {**row, "change_id": f"{at}", "sort_key": at.to_bytes(2), "previous_key": None}
        for at, row in enumerate(parted)
    ]


def stated(scenario: Sequence[Statements], manner: key_moves.Manner = key_moves.PLAIN) -> list[LedgerRow]:
    ledger_rows = key_moves.reported(scenario, 0, manner).rows
    return [{**row, "commit_lsn": row["committed_at"].isoformat().encode()} for row in ledger_rows]


def findings_between(reference: Sequence[LedgerRow], other: Sequence[LedgerRow], method: Method) -> list[str]:
    contract = key_moves.CONTRACT
    sides = [(tables.ledger(rows, contract), contract) for rows in (reference, other)]
    findings = {tuple(sorted(row["verdict"] for row in compared(*pair, method).findings))
                for pair in (sides, sides[::-1])}  # fmt: skip
    swapped = {"missing": "extra", "extra": "missing"}
    assert len({min(f, tuple(sorted(swapped.get(v, v) for v in f))) for f in findings}) == 1
    return list(min(findings))


def assert_each_half_counts(halves: list[LedgerRow], updates: list[LedgerRow], method: Method) -> None:
    for at in range(4, len(halves)):
        assert findings_between([*halves[:at], *halves[at + 1 :]], updates, method) != []


@by_either
@pytest.mark.parametrize("scenario", ONE_STATEMENT)
def test_keys_are_exchanged_alike_by_updates_and_by_their_halves(scenario: str, method: Method) -> None:
    """Qlik writes an update of each row: one row takes a key before the other leaves it (ADR 0016)."""
    updates = stated(key_moves.SCENARIOS[scenario])
    halves = as_halves(updates)
    assert findings_between(halves, updates, method) == []
    assert_each_half_counts(halves, updates, method)


@by_either
def test_an_update_is_the_same_where_its_insert_stands_before_its_delete(method: Method) -> None:
    """By `__$seqval`, an update's insert precedes its delete (https://support.microsoft.com/help/3030352)."""
    updates = stated([[[(1, 1)], [(1, 1)]], [[(2, 2)]]])
    halves = as_halves(updates, deletes_first=False)
    of_first = halves[4:8]
    halves[4:8] = [of_first[at] | {"sort_key": bytes([0, 4 + n])} for n, at in enumerate((0, 2, 1, 3))]
    assert findings_between(halves, updates, method) == []
    assert_each_half_counts(halves, updates, method)


@by_either
def test_so_is_an_update_of_no_captured_column(method: Method) -> None:
    """Insert and delete of the update show the same row (https://support.microsoft.com/help/4135113)."""
    updates = stated([[[(1, 1)]], [[(2, 2)]]])
    updates = [r | {"after": r["before"]} if r["operation"] == change.UPDATE else r for r in updates]
    halves = as_halves(updates, deletes_first=False)
    for reference in (updates, as_halves(updates)):
        assert findings_between(reference, halves, method) == []
    assert_each_half_counts(halves, updates, method)


@by_either
def test_an_update_in_two_halves_is_counted_as_one(method: Method) -> None:
    updates = stated([[[(1, 1)]], [[(2, 2)]]])
    contract = key_moves.CONTRACT
    whole, halves = ((tables.ledger(rows, contract), contract) for rows in (updates, as_halves(updates)))

    def counted(*sides: tuple[pa.Table, Contract]) -> dict[str, int]:
        return {name: n for name, n in compared(*sides, method).counts.counts.items() if n}

    in_one_of_both = {"equal": 4, "expected": 2, "update_as_delete_and_insert": 2}
    assert counted(whole, halves) == counted(halves, whole) == in_one_of_both
    assert counted(whole, whole) == counted(halves, halves) == {"equal": 6}


CODES = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, key_position=1),
        Column(name="code", type="char(5)", ordinal=2),
        Column(name="size", type="int", ordinal=3),
    ),
)


def test_in_another_order_or_without_a_common_one() -> None:
    """One feed has two updates in another order, and one of them in another text (the padding of a char)."""
    there, back, padded = (
        ((1, "x", 5), (1, "y", 5)),
        ((1, "y", 5), (1, "x", 5)),
        ((1, "y", 5), (1, "x    ", 5)),
    )
    update = an_insert()[1] | {"operation": "update", "key": (1,), "changed": ["code"]}

    def ledger_of(*images: tuple[Any, Any]) -> tuple[pa.Table, Contract]:
        rows = [
            update | {"before": before, "after": after, "sort_key": bytes([at]), "change_id": str(at)}
            for at, (before, after) in enumerate(images)
        ]
        return tables.ledger(rows, CODES), CODES

    def counted(method: Method) -> dict[str, int]:
        counts = compared(ledger_of(there, back), ledger_of(padded, there), method).counts.counts
        return {name: n for name, n in counts.items() if n}

    assert counted(BY_POSITION) == counted(BY_KEY) == {"order": 2}
    unordered = Method(Reach(), Positions(UNKNOWN, True, 0, 1))
    assert counted(unordered) == {"expected": 1, "order_unknown": 1, "representation": 1}


@pytest.mark.parametrize("side", ["before", "after"])
def test_another_text_and_an_unsent_cell_are_counted_by_column(side: str) -> None:
    """The padding of a char, a form of its value, and a cell that only one tool sends, in either image."""
    images = {"before": (1, "x", 5), "after": (1, "y", 5)}
    update = an_insert()[1] | {"operation": "update", "key": (1,), "changed": ["code"], **images}
    del update["previous_key"]

    def counted(row: LedgerRow, others: Sequence[LedgerRow]) -> tuple[dict[str, int], dict[str, Any]]:
        sides = [(tables.ledger(rows, CODES), CODES) for rows in ([row], others)]
        result, swapped = (compared(*pair).counts for pair in (sides, sides[::-1]))
        assert result == swapped
        return {name: n for name, n in result.counts.items() if n}, result.columns

    def with_cells(*cells: Any, **members: Any) -> LedgerRow:
        return update | {side: (1, *cells), **members}

    code, gap = images[side][1], {f"{side}_unknown_columns": {"code": change.NOT_CAPTURED}}
    padded, larger = with_cells(f"{code}    ", 5), with_cells(f"{code}    ", 6)
    assert counted(update, [update]) == ({"equal": 1}, {})
    in_another_text = {"representation": 1}, {"code": {"representation": 1}}
    assert counted(padded, [update]) == counted(padded, as_halves([update])) == in_another_text
    for row in (larger, with_cells(None, 6, **gap)):
        assert counted(row, [update]) == ({"differs": 1}, {"size": {"differs": 1}})
    unsent = {"expected": 1, "not_captured": 1}, {"code": {"not_captured": 1}}
    assert counted(with_cells(None, 5, **gap), [update]) == unsent


def test_a_row_that_is_inserted_and_deleted_in_one_transaction_is_no_update() -> None:
    updates = stated([[[(None, 5)], [(5, None)]]], key_moves.SILENT)
    shown = {"before": updates[4]["after"], "before_unknown_columns": None}
    whole = [row | shown if row["operation"] == change.DELETE else row for row in updates]
    for deleted in (updates, whole):
        assert findings_between(updates, deleted, BY_POSITION) == []
        assert findings_between(updates[:4], deleted, BY_POSITION) == ["extra", "extra"]
        sides = ((tables.ledger(rows, key_moves.CONTRACT), key_moves.CONTRACT) for rows in (updates, deleted))
        assert in_spans(compared(*sides).counts) == (len(updates), len(updates))


def test_columns_that_one_feed_publishes_in_another_form() -> None:
    """Compares renamed and cast columns, and columns hashed alike on both sides. Names other hashed ones."""
    log = simulate(3, 60)
    table = log.table("dbo.customers")
    source, changed = contract_of(table), ledger(log, table)
    rules = {
        "email": {"hash": True, "rename": "mail"}, "name": "hash", "credit": {"cast": "decimal(20,6)"},
        "notes": "drop",
    }  # fmt: skip
    hashed = _as_published(changed, source, rules, "one secret of many")
    counts = compared(hashed, (changed, source)).counts.counts
    assert counts["equal"] == len(effects(_all(log), table)) > 10
    assert sum(counts[verdict] for verdict in VERDICTS) == counts["equal"]
    assert dict(Columns.of(hashed[1], source).left_out) == dict.fromkeys(
        ("email", "name"), "hashed in one of the two"
    )
    both = Columns.of(hashed[1], _as_published(changed, source, rules, "one secret of many")[1])
    assert not both.left_out
    assert {"mail", "name"} <= set(both.names)
    other = Columns.of(hashed[1], _as_published(changed, source, rules, "another secret")[1])
    assert set(other.left_out.values()) == {"hashed with two keys"}
    with pytest.raises(ContractError, match="cannot be compared: id: hashed in one"):
        Columns.of(_as_published(changed, source, {"id": "hash"}, "a secret")[1], source)


def test_columns_that_are_not_compared_are_named() -> None:
    """Each column has its reason. Computed columns are not named, as no feed has their values."""
    contract = contract_of(simulate(3, 1).table("dbo.customers"))
    hidden = contract.published_by({"email": PublishRule(drop=True), "name": PublishRule(hash=True)}, "a key")
    shorter = contract.model_copy(update={"columns": contract.columns[:-1]})
    last = contract.columns[-1].name
    assert not_compared(hidden, shorter, ("one", "other")) == {
        last: "only one has it", "email": "left out of what is published", "name": "hashed in one of the two",
    }  # fmt: skip
    assert not_compared(shorter, contract, ("one", "other")) == {last: "only other has it"}
    assert not_compared(shorter, contract.with_computed({last.lower()}), ("one", "other")) == {}
    assert not_compared(contract, contract, ("one", "other")) == {}


def _as_published(
    ledger_rows: pa.Table, source: Contract, rules: dict[str, Any], secret: str
) -> tuple[pa.Table, Contract]:
    parsed = {name: PublishRule.model_validate(rule) for name, rule in rules.items()}
    contract = source.published_by(parsed, key_id(secret))
    kernel = PublishChanges(contract, secret, ledger_rows.schema)
    return pa.Table.from_batches([kernel(as_batch(ledger_rows))]), contract.published
