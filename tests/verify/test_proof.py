"""A proof of published rows against the source's rows reports each drift, and no change in flight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from changeledger.compare.columns import Columns
from changeledger.kernels.arrow import NAMES, row_type
from changeledger.model.change import UNFIT_COLUMNS
from changeledger.reconcile.buckets import current
from changeledger.stages.verification.tables import Proof, concluded
from changeledger.verify import drift, sums, versions
from changeledger.verify.fence import Fence
from changeledger.verify.sums import Sums
from changeledger.verify.verdicts import VERDICTS
from changeledger.verify.versions import CURRENT, HISTORY, SOURCE
from sourcelab.log import Log, simulate
from sourcelab.tables import CUSTOMERS, ORDERS, PARTS, Key, Row, Table
from sourcelab.values import other_value
from tests.compare.sides import Held
from tests.ledger_rows import PLAIN, Manner, contract_of
from tests.ledger_rows import rows as ledger_rows
from tests.reconcile import tables

# Times of no commit, so that only positions tell what happened meanwhile.
LATER, EARLIER = datetime(9999, 1, 1, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)


def fence(log: Log, first: int, last: int) -> Fence:
    """The fence from after the transaction `first` to after `last`."""
    return Fence(LATER, EARLIER, log.transactions[first].commit_lsn, log.transactions[last].commit_lsn)


def proof(
    log: Log,
    table: Table,
    rows: Mapping[Key, Row],
    within: Fence,
    manner: Manner = PLAIN,
    unfit: Mapping[Key, Sequence[str]] | None = None,
) -> Proof:
    """A proof of the log's published rows.

    `unfit`: by key, the columns whose source values do not fit their types.
    """
    return proof_of(ledger_rows(log, table, manner), table, rows, within, unfit)


def proof_of(
    published: Sequence[dict[str, Any]],
    table: Table,
    rows: Mapping[Key, Row],
    within: Fence,
    unfit: Mapping[Key, Sequence[str]] | None = None,
) -> Proof:
    """A proof of a ledger's rows, `published`."""
    contract = contract_of(table)
    built = tables.all_at_once(tables.ledger(published, contract), contract)
    kinds = row_type(contract.columns)
    parts = {
        SOURCE: pa.table(
            [
                *(pa.array([row[f.name] for row in rows.values()], f.type) for f in kinds),
                pa.array([(unfit or {}).get(key) for key in rows], NAMES),
            ],
            schema=pa.schema([*kinds, pa.field(UNFIT_COLUMNS, NAMES)]),
        ),
        CURRENT: current(built.opened, contract),
        HISTORY: pa.concat_tables([built.closed, built.opened]),
    }
    columns = Columns.of(contract, contract)
    return Proof({part: Held(rows) for part, rows in parts.items()}, columns, within)


def judged(table_proof: Proof) -> tuple[Counter[str], list[tuple[str, tuple[str, ...]]], Sums]:
    """Judges a proof.

    Returns the number of rows by verdict, the `(verdict, columns)` of the drifts, and the first pass.
    """
    first = table_proof.summed()
    judgement = table_proof.judged(first)
    drifts = sorted(
        (row["verdict"], tuple(table_proof.columns.names[n] for n in row["numbers"] or ()))
        for row in judgement.wrong.collected().to_pylist()
    )
    return Counter({v: judgement.counts[v] for v in VERDICTS if judgement.counts[v]}), drifts, first


def state(log: Log, table: Table, last: int) -> dict[Key, Row]:
    return Log(log.tables, log.transactions[: last + 1]).final_rows(table)


@pytest.mark.parametrize("table", [CUSTOMERS, ORDERS, PARTS], ids=lambda t: t.name)
def test_a_source_at_rest_is_proved_by_hashes_alone(table: Table) -> None:
    log = simulate(21, 40)
    rows = log.final_rows(table)
    verdicts, drifts, first = judged(proof(log, table, rows, fence(log, 40, 40)))
    assert (verdicts, drifts) == (Counter(), [])
    assert (first.rows, first.equal, first.apart) == (len(rows), len(rows), 0)
    assert first.differing == []
    assert 0 < first.buckets <= len(rows)


def corrupted(
    rng: Random, table: Table, rows: Mapping[Key, Row], kinds: Sequence[str]
) -> tuple[dict[Key, Row], list[tuple[str, tuple[str, ...]]]]:
    """Changes rows behind the log's back, one key for each kind. Returns the rows, and the drifts."""
    in_source = dict(rows)
    chosen = rng.sample(sorted(rows), len(kinds))
    drifts: list[tuple[str, tuple[str, ...]]] = []
    for key, kind in zip(chosen, kinds, strict=True):
        if kind == "lost":
            # The source lacks the row, so the published one is extra.
            del in_source[key]
            drifts.append(("extra", ()))
        elif kind == "changed":
            column = rng.choice([c for c in table.free_columns if c.base != "char"])
            in_source[key] = rows[key] | {column.name: other_value(rng, column, rows[key][column.name])}
            drifts.append(("differs", (column.name,)))
        else:
            fresh = rows[key] | {table.key[-1]: 12_345 if table is not PARTS else "F" * 8}
            in_source[table.key_of(fresh)] = fresh
            drifts.append(("missing", ()))
    return in_source, sorted(drifts)


_ALL = ["changed", "lost", "new", "changed"]


@pytest.mark.parametrize(
    ("seed", "kinds"), [(1, ["changed"]), (2, ["lost"]), (3, ["new"]), (1, _ALL), (2, _ALL), (3, _ALL)]
)
def test_what_was_changed_behind_the_log_is_found_and_nothing_else(seed: int, kinds: list[str]) -> None:
    log, rng = simulate(seed, 40), Random(seed)
    for table in (CUSTOMERS, ORDERS):
        rows, expected = corrupted(rng, table, log.final_rows(table), kinds)
        _, drifts, first = judged(proof(log, table, rows, fence(log, 40, 40)))
        assert drifts == expected
        assert len(first.differing) <= len(kinds)


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_changes_in_flight_are_no_drift(seed: int) -> None:
    """Every key is read at its own moment between the two ends. The feed has been read beyond both."""
    log, rng = simulate(seed, 60), Random(seed)
    first, last = 20, 45
    for table in (CUSTOMERS, ORDERS, PARTS):
        states = [state(log, table, at) for at in range(first, last + 1)]
        keys = {key for rows_then in states for key in rows_then}
        read = {key: rng.choice(states).get(key) for key in sorted(keys)}
        rows = {key: row for key, row in read.items() if row is not None}
        verdicts, drifts, _ = judged(proof(log, table, rows, fence(log, first, last)))
        assert drifts == []
        assert verdicts["in_flight"] > 0


def test_a_row_is_judged_once_and_a_changing_one_may_be_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys in flight share their buckets with rows that hashes have proved."""
    for module in (sums, versions):
        monkeypatch.setattr(module, "BUCKETS", 2)
    log = simulate(4, 60)
    before, rows = (state(log, CUSTOMERS, at) for at in (20, 45))
    twice = next(row for key, row in before.items() if rows.get(key) not in (None, row))
    table_proof = proof(log, CUSTOMERS, {**rows, ("again",): twice}, fence(log, 20, 45))
    verdicts, drifts, first = judged(table_proof)
    assert (set(verdicts), drifts, first.differing) == ({"in_flight"}, [], [])
    assert first.equal > 0


def loaded(table: Table, rows: Mapping[Key, Row], place: bytes = b"\xf0" * 10) -> list[dict[str, Any]]:
    """A ledger of snapshot rows, read after the whole log."""
    return [
        {"change_id": f"{place!r} {at}", "operation": "snapshot", "key": key, "sort_key": place + bytes([at]),
         "commit_lsn": place, "committed_at": LATER.replace(year=9000),
         "after": tuple(row[name] for name in table.names)}
        for at, (key, row) in enumerate(rows.items())
    ]  # fmt: skip


class Later(NamedTuple):
    """A log's rows, and the rows later on: one of them has changed, and one is gone."""

    log: Log
    rows: dict[Key, Row]
    now: dict[Key, Row]
    changed: Key
    gone: Key
    within: Fence


@pytest.fixture
def later() -> Later:
    log = simulate(21, 40)
    rows = log.final_rows(CUSTOMERS)
    changed, gone, *others = sorted(rows)
    now = {key: rows[key] for key in others} | {changed: rows[changed] | {"name": "another"}}
    return Later(log, rows, now, changed, gone, fence(log, 40, 40))


def test_a_feed_that_was_loaded_later_says_nothing_of_what_was_read(later: Later) -> None:
    """Rows may have come, gone and changed since. Only what is wrong in any case is drift."""
    log, rows, now, _, gone, within = later
    table_proof = proof_of(loaded(CUSTOMERS, now), CUSTOMERS, rows, within)
    verdicts, drifts, first = judged(table_proof)
    assert (verdicts, drifts) == ({"in_flight": len(rows) - 1, "missing": 1}, [("missing", ())])
    assert table_proof.judged(first).outcome(is_sent=True) == "waiting"
    whole = proof_of(loaded(CUSTOMERS, rows), CUSTOMERS, rows, within)
    assert whole.judged(whole.summed()).outcome(is_sent=True) == "waiting"
    # Rows that were loaded again, and one that the feed has published wrong.
    log_rows = ledger_rows(log, CUSTOMERS)
    again = proof_of([*log_rows, *loaded(CUSTOMERS, rows)], CUSTOMERS, rows, within)
    assert again.judged(again.summed()).outcome(is_sent=True) == "proven"
    drifted = proof_of([*log_rows, *loaded(CUSTOMERS, rows)], CUSTOMERS, now | {gone: rows[gone]}, within)
    assert [drifted.judged(drifted.summed()).outcome(is_sent) for is_sent in (True, False)] == [
        "drift", "waiting",
    ]  # fmt: skip


def test_what_a_feed_has_loaded_before_the_reading_is_judged(later: Later) -> None:
    """The row is judged, whether or not the feed has loaded it again since."""
    _, rows, now, changed, _, within = later
    before_all = loaded(CUSTOMERS, rows, b"\0" * 10)
    for since in ({}, {changed: rows[changed] | {"name": "a third"}}):
        published = [*before_all, *loaded(CUSTOMERS, since)]
        table_proof = proof_of(published, CUSTOMERS, now, within)
        _, drifts, first = judged(table_proof)
        assert drifts == [("differs", ("name",)), ("extra", ())]
        assert table_proof.judged(first).outcome(is_sent=True) == "drift"


@pytest.mark.parametrize("seed", [7, 8])
def test_drift_beside_changes_in_flight(seed: int) -> None:
    """A key is wrong if its row matches none of the states in between, even if it matches another state."""
    log, rng = simulate(seed, 60), Random(seed)
    first, last = 25, 35
    for table in (CUSTOMERS, ORDERS):
        states = [state(log, table, at) for at in range(len(log.transactions))]
        keys = sorted({key for rows_then in states for key in rows_then})
        rows, expected = {}, Counter[str]()
        for key in keys:
            everywhere = [rows_then.get(key) for rows_then in states]
            row = rng.choice(everywhere)
            meanwhile = everywhere[first : last + 1]
            if row is not None:
                rows[key] = row
            if row not in meanwhile:
                kind = "extra" if row is None else "differs"
                expected["missing" if not any(meanwhile) else kind] += 1
        _, drifts, _ = judged(proof(log, table, rows, fence(log, first, last)))
        assert Counter(verdict for verdict, _ in drifts) == expected
        assert len(expected) > 1


def test_by_the_clock_where_the_source_gives_no_position() -> None:
    log = simulate(9, 60)
    manner = PLAIN._replace(knows_lsn=False)
    since, until = log.transactions[20].commit_time, log.transactions[45].commit_time
    behind = max(at for at, t in enumerate(log.transactions) if t.commit_time <= since)
    for at in (behind, 45):
        rows = state(log, CUSTOMERS, at)
        verdicts, drifts, _ = judged(proof(log, CUSTOMERS, rows, Fence(since, until), manner))
        assert drifts == []
        assert verdicts["in_flight"] > 0
    # A key that has changed since then has drifted if the source still has its earlier state.
    _, drifts, _ = judged(proof(log, CUSTOMERS, state(log, CUSTOMERS, 2), Fence(since, until), manner))
    assert drifts


def test_cells_that_no_tool_has_sent_are_unknown_and_no_drift() -> None:
    log = simulate(10, 40)
    manner = PLAIN._replace(unsent=frozenset({"notes"}))
    rows = log.final_rows(CUSTOMERS)
    table_proof = proof(log, CUSTOMERS, rows, fence(log, 40, 40), manner)
    verdicts, drifts, first = judged(table_proof)
    assert (verdicts, drifts, first.apart) == (Counter(equal=len(rows)), [], len(rows))
    assert table_proof.judged(first).counts["unknown"] == len(rows)
    key = min(rows)
    changed = {**rows, key: rows[key] | {"credit": rows[key]["credit"] + 1}}
    _, drifts, _ = judged(proof(log, CUSTOMERS, changed, fence(log, 40, 40), manner))
    assert drifts == [("differs", ("credit",))]


@pytest.mark.parametrize(("cells", "differing"), [({}, ()), ({"name": "old"}, ("name",))])
def test_a_key_that_is_published_twice_has_drifted(cells: Row, differing: tuple[str, ...]) -> None:
    """A source has one row of a key: readers who join on the key would get two."""
    log = simulate(10, 40)
    rows = log.final_rows(CUSTOMERS)
    table_proof = proof(log, CUSTOMERS, rows, fence(log, 40, 40))
    held = table_proof.parts[CURRENT]
    assert isinstance(held, Held)
    again = pa.Table.from_pylist([held.table.to_pylist()[0] | cells], held.table.schema)
    twice = replace(
        table_proof, parts={**table_proof.parts, CURRENT: Held(pa.concat_tables([held.table, again]))}
    )
    verdicts, drifts, _ = judged(twice)
    assert drifts == [("differs", differing)]
    assert verdicts["differs"] == 1


def test_another_text_of_the_same_value_is_no_drift() -> None:
    """The case of a GUID, the padding of a char, the offset of a time."""
    log = simulate(11, 30)

    def other_text(table: Table, row: Row) -> dict[str, Any]:
        respelled = dict(row)
        for column in table.columns:
            value = row[column.name]
            if value is None:
                continue
            if column.base == "uniqueidentifier":
                respelled[column.name] = value.lower()
            elif column.base == "char":
                respelled[column.name] = value.rstrip()
            elif column.base == "datetimeoffset":
                respelled[column.name] = value.replace("+00:00", "-00:00").replace("T", " ")
        return respelled

    for table in (ORDERS, PARTS):
        rows = {key: other_text(table, row) for key, row in log.final_rows(table).items()}
        verdicts, drifts, first = judged(proof(log, table, rows, fence(log, 30, 30)))
        assert (verdicts, drifts, first.differing) == (Counter(), [], [])


def test_a_key_that_the_source_has_twice_is_not_proven() -> None:
    """A feed's YAML may state a key that does not distinguish all rows. A proof covers all rows."""
    log = simulate(13, 30)
    rows = log.final_rows(CUSTOMERS)
    first, second = sorted(rows)[:2]
    other = rows[first] | {"credit": rows[first]["credit"] + 1}
    for source in (
        {**rows, ("again",): other, ("twice",): rows[second]},
        # The order of reading does not matter.
        {("again",): other, **rows, ("twice",): rows[second]},
    ):
        table_proof = proof(log, CUSTOMERS, source, fence(log, 30, 30))
        verdicts, drifts, _ = judged(table_proof)
        assert drifts == [("differs", ("credit",)), ("missing", ())]
        assert (verdicts["differs"], verdicts["missing"], verdicts["extra"]) == (1, 1, 0)
        explained = table_proof.explained(table_proof.judged(table_proof.summed())).collected().to_pylist()
        (cells,) = [row["cells"] for row in explained if row["verdict"] == "differs"]
        assert [Decimal(cells[0][side]) for side in ("source", "published")] == [
            other["credit"], rows[first]["credit"],
        ]  # fmt: skip


def test_a_value_of_the_source_that_is_none_of_its_type_is_no_null() -> None:
    """A source value that does not fit its type differs from any published value, including NULL.

    The source's column has grown (`decimal(10,2)` to `(12,4)`), or the feed states a narrower type. No repair
    writes NULL in its place.
    """
    log = simulate(13, 40)
    rows = log.final_rows(CUSTOMERS)
    is_null, is_value = (
        next(key for key, row in sorted(rows.items()) if (row["notes"] is None) == wanted)
        for wanted in (True, False)
    )
    fresh = rows[is_null] | {"id": 12_345, "notes": None}
    read = {**rows, is_value: rows[is_value] | {"notes": None}, (12_345,): fresh}
    unfit = {key: ["notes"] for key in (is_null, is_value, (12_345,))}
    table_proof = proof(log, CUSTOMERS, read, fence(log, 40, 40), unfit=unfit)
    _, drifts, first = judged(table_proof)
    assert drifts == [("differs", ("notes",)), ("differs", ("notes",)), ("missing", ())]
    for row in table_proof.explained(table_proof.judged(first)).collected().to_pylist():
        assert "notes" not in dict(row["after"])
        if row["verdict"] == "differs":
            assert [(cell["name"], cell["source"]) for cell in row["cells"]] == [("notes", "(unavailable)")]


def test_no_row_is_a_table_too() -> None:
    log = simulate(12, 10)
    _, drifts, first = judged(proof(log, CUSTOMERS, {}, fence(log, 10, 10)))
    assert len(drifts) == len(log.final_rows(CUSTOMERS)) > 0
    assert {verdict for verdict, _ in drifts} == {"extra"}
    assert first.rows == 0


def test_a_drift_has_both_values_its_last_change_and_what_mends_it() -> None:
    log = simulate(13, 30)
    rows = log.final_rows(CUSTOMERS)
    changed, lost, model = sorted(rows)[:3]
    fresh = rows[model] | {"id": 12_345, "notes": None}
    in_source = {key: row for key, row in rows.items() if key != lost} | {
        changed: rows[changed] | {"credit": rows[changed]["credit"] + 1},
        (12_345,): fresh,
    }
    table_proof = proof(log, CUSTOMERS, in_source, fence(log, 30, 30))
    ledger = Held(tables.ledger(ledger_rows(log, CUSTOMERS), contract_of(CUSTOMERS)))
    named = {"proof_id": "p", "database": "d", "table": "t", "feed": "f"}
    kernel = drift.Conclude(named, table_proof.fence.since)
    conclusion = concluded(table_proof.explained(table_proof.judged(table_proof.summed())), ledger, kernel)
    reported = {row["verdict"]: row for row in conclusion[drift.DRIFT_ROWS].collected().to_pylist()}
    repairs = {row["key"]: row for row in conclusion[drift.REPAIR_ROWS].collected().to_pylist()}
    mending = {verdict: repairs[row["key"]] for verdict, row in reported.items()}
    assert {verdict: row["key"] for verdict, row in reported.items()} == {
        "differs": f'{{"id":{changed[0]}}}', "extra": f'{{"id":{lost[0]}}}', "missing": '{"id":12345}',
    }  # fmt: skip
    old, new = rows[changed]["credit"], rows[changed]["credit"] + 1
    (cell,) = reported["differs"]["cells"]
    assert (cell["name"], Decimal(cell["source"]), Decimal(cell["published"])) == ("credit", new, old)
    for verdict, key in (("differs", changed), ("extra", lost)):
        of_key = [
            (number, transaction)
            for number, (transaction, change) in enumerate(
                (t, c) for t in log.transactions for c in sorted(t.changes, key=lambda c: c.change_lsn)
                if c.table is CUSTOMERS
            )
            if change.after is not None and CUSTOMERS.key_of(change.after) == key
        ]  # fmt: skip
        number, transaction = of_key[-1]
        assert reported[verdict]["change_id"] == f"feed-{number}-0"
        assert bytes(reported[verdict]["commit_lsn"]) == transaction.commit_lsn
        assert reported[verdict]["source_position"]["offset"] == number
    assert reported["missing"]["change_id"] is None
    assert {v: row["operation"] for v, row in mending.items()} == {
        "differs": "update", "extra": "delete", "missing": "insert",
    }  # fmt: skip
    assert {v: (row["before"] is None, row["after"] is None) for v, row in mending.items()} == {
        "differs": (False, False), "extra": (False, True), "missing": (True, False),
    }  # fmt: skip
    after = dict(mending["missing"]["after"])
    assert (after["id"], after["name"], after["notes"]) == ("12345", fresh["name"], None)
    assert set(after) == set(CUSTOMERS.names)
