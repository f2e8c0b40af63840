"""Compares rows that a topic sends again: each must equal its key's previous version."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pytest

from changeledger.kernels.in_memory import InMemory
from changeledger.kernels.rows import as_batch
from changeledger.verify import resnapshot
from tests.reconcile import tables
from tests.reconcile.tables import LedgerRow
from tests.redelivered_rows import CONTRACT, rows


def judged(runs: list[str], *more: LedgerRow, versions_first: bool = False) -> dict[str, pa.Table]:
    ledger = tables.ledger([*rows(), *more], CONTRACT)
    built = tables.all_at_once(ledger, CONTRACT)
    history = pa.concat_tables([built.closed, built.opened])
    parts = [
        resnapshot.sent_again(as_batch(ledger), CONTRACT, runs),
        resnapshot.as_versions(as_batch(history), CONTRACT),
    ]
    both = pa.Table.from_batches(parts[::-1] if versions_first else parts)
    return resnapshot.Judge(CONTRACT)({resnapshot.ROWS: both})


def counts_of(verdicts: dict[str, pa.Table]) -> dict[str, int]:
    counts = verdicts[resnapshot.COUNTS]
    return dict(zip(*(counts.column(name).to_pylist() for name in ("verdict", "rows")), strict=True))


def test_a_gap_in_the_row_that_is_sent_again_cannot_differ() -> None:
    known, gap = (
        {"after": (8, 1, "x")},
        {"after": (8, 2, None), "after_unknown_columns": {"b": "unavailable"}},
    )
    first, again = (
        row | {"key": (8,), "change_id": f"8 {at}", "sort_key": bytes([9, at]), **image}
        for at, (row, image) in enumerate(((rows()[0], known), (rows()[8], gap)))
    )
    wrong = judged(["run"], first, again)[resnapshot.WRONG].to_pylist()
    (row,) = [row for row in wrong if row["key"] == '{"id":8}']
    assert [cell["name"] for cell in row["cells"]] == ["a"]


@pytest.mark.parametrize("versions_first", [False, True])
def test_against_the_version_before(versions_first: bool) -> None:
    verdicts = judged(["run"], versions_first=versions_first)
    # 4 is new to the feed, so it has no previous version. What was unknown before cannot differ.
    assert counts_of(verdicts) == {"equal": 3, "missing": 1, "differs": 1}
    wrong = {row["key"]: row for row in verdicts[resnapshot.WRONG].to_pylist()}
    assert {key: (row["verdict"], row["last_change_id"]) for key, row in wrong.items()} == {
        '{"id":2}': ("differs", "c1"), '{"id":3}': ("missing", "c3"),
    }  # fmt: skip
    assert wrong['{"id":3}']["cells"] is None
    assert [tuple(cell.values()) for cell in wrong['{"id":2}']["cells"]] == [
        ("a", "2", "1"),
        ("b", "NULL", "x"),
    ]
    none = judged(["another run"])[resnapshot.COUNTS]
    assert set(none.column("rows").to_pylist()) == {0}


def test_rows_that_are_cut_otherwise_are_the_same() -> None:
    ledger = InMemory(tables.ledger(rows(), CONTRACT))
    sent_again = partial(resnapshot.sent_again, contract=CONTRACT, runs=["run"])
    whole = ledger.through(sent_again, resnapshot.schema(CONTRACT)).collected()
    halves = [
        InMemory(part).through(sent_again, resnapshot.schema(CONTRACT)).collected()
        for part in (ledger.table.slice(0, 5), ledger.table.slice(5))
    ]
    assert pa.concat_tables(halves).equals(whole)
