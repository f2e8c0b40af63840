"""Compares rows that a topic sends again: each must equal its key's previous version."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from changeledger.kernels.in_memory import InMemory
from changeledger.kernels.rows import as_batch
from changeledger.verify import resnapshot
from tests.reconcile import tables
from tests.redelivered_rows import CONTRACT, rows


def judged(runs: list[str]) -> dict[str, pa.Table]:
    ledger = tables.ledger(rows(), CONTRACT)
    built = tables.all_at_once(ledger, CONTRACT)
    history = pa.concat_tables([built.closed, built.opened])
    parts = [
        resnapshot.sent_again(as_batch(ledger), CONTRACT, runs),
        resnapshot.as_versions(as_batch(history), CONTRACT),
    ]
    return resnapshot.Judge(CONTRACT)({resnapshot.ROWS: pa.Table.from_batches(parts)})


def test_against_the_version_before() -> None:
    verdicts = judged(["run"])
    counts = dict(
        zip(*(verdicts[resnapshot.COUNTS].column(n).to_pylist() for n in ("verdict", "rows")), strict=True)
    )
    # 4 is new to the feed, so it has no previous version. What was unknown before cannot differ.
    assert counts == {"equal": 3, "missing": 1, "differs": 1}
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
