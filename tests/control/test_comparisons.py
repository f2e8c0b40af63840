"""The pages' queries on comparisons and proofs: sums and latest ones by SQL, in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from changeledger.compare.verdicts import CLASSES, DIFFERS, VERDICTS
from changeledger.control import ControlStore
from changeledger.control.comparisons import Counted
from sourcelab.services import Postgres
from tests.state.pairs import NEW, OLD, TABLE, compare, lsn, prove

NOW = datetime(2026, 1, 31, 23, 59, 30, tzinfo=UTC)
DAY = timedelta(days=1)
PAIR, COUNTED = (OLD, NEW), Counted(VERDICTS, CLASSES)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.integration)])
def control(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ControlStore]:
    if request.param == "sqlite":
        yield ControlStore(f"sqlite:///{tmp_path}/control.db")
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        yield ControlStore(postgres.url)


def test_what_pages_ask(control: ControlStore) -> None:
    """One table has three days, with a disagreement on the first. Another has one day, with swapped feeds."""
    for number, counts in (
        (3, {"equal": 7, "differs": 2}),
        (2, {"equal": 10}),
        (1, {"equal": 20, "extra": 1}),
    ):
        end = NOW - number * DAY
        compare(control, 10 - number, 11 - number, end - DAY, end, **counts)
    compare(control, 7, 8, NOW - 3 * DAY, NOW - 2 * DAY, table="dbo.parts", reference=NEW, missing=4)
    control.comparisons.accept("shop", "known", "ann", table="dbo.parts")
    last = control.comparisons.last("shop")
    assert [(row.table, row.counts["equal"]) for row in last[PAIR]] == [(TABLE, 7), (TABLE, 20)]
    assert control.comparisons.last("shop", (NEW, OLD)).keys() == {(NEW, OLD)}
    outcomes = {pair[:3] for pair in control.comparisons.pair_outcomes(["shop", "other"])}
    assert outcomes == {(OLD, NEW, frozenset({"differ"})), (NEW, OLD, frozenset({"accepted"}))}
    assert control.comparisons.settled("shop", OLD, NEW) == {TABLE: lsn(7)}
    days = control.comparisons.days("shop", PAIR, NOW - 2 * DAY, ("equal", "extra"))
    # The comparisons end five minutes later, on the next day.
    assert [(str(day), dict(counts)) for day, counts in days] == [
        ("2026-01-30", {"equal": 10, "extra": 0}), ("2026-01-31", {"equal": 20, "extra": 1}),
    ]  # fmt: skip
    since = NOW - 2 * DAY
    reaches = {
        reach.table: reach for reach in control.comparisons.table_reaches("shop", PAIR, since, VERDICTS)
    }
    assert reaches[TABLE][1:3] == (lsn(9), lsn(10))
    assert (reaches[TABLE].begun, reaches[TABLE].until) == (NOW - 4 * DAY, NOW - DAY)
    sums = {row.table: row for row in control.comparisons.table_sums("shop", PAIR, since, COUNTED)}
    assert (sums[TABLE].comparisons, sums[TABLE].counts["equal"], sums[TABLE].is_accepted) == (2, 30, False)
    assert (sums["dbo.parts"].counts["missing"], sums["dbo.parts"].is_accepted) == (4, True)
    notable = control.comparisons.notable("shop", PAIR, since, DIFFERS)
    assert sorted(row.table for row in notable) == [TABLE, "dbo.parts"]
    assert control.comparisons.compared_parts("shop", PAIR, lsn(9)) == {
        TABLE: [(lsn(8), lsn(9)), (lsn(9), lsn(10))]
    }


def test_a_comparison_takes_the_place_of_those_within_it(control: ControlStore) -> None:
    for first, last in ((1, 5), (5, 9), (8, 12)):
        compare(control, first, last, NOW, NOW)
    compare(control, 1, 9, NOW, NOW)
    assert {(row.from_lsn, row.to_lsn) for row in control.comparisons.of_database("shop")} == {
        (lsn(1), lsn(9)), (lsn(8), lsn(12)),
    }  # fmt: skip


def test_what_newer_results_have_taken_the_place_of(control: ControlStore) -> None:
    compare(control, 1, 5, NOW - 9 * DAY, NOW - 8 * DAY, differs=1)
    compare(control, 5, 9, NOW - 8 * DAY, NOW - 7 * DAY)
    compare(control, 9, 12, NOW - 7 * DAY, NOW - 6 * DAY)
    prove(control, NOW - 6 * DAY)
    old = control.upkeep.superseded("shop", NEW, NOW)
    assert [row_id.rsplit(".", 2)[-2:] for row_id in old.comparisons] == [["5", "9"]]
    assert old.proofs == []
    assert [row.table for row in control.proofs.last("shop", [NEW])[NEW]] == [TABLE]
    assert control.proofs.last("shop", [OLD]) == {}
    assert [proven.outcome for proven in control.proofs.last_proven(["shop"])] == ["proven"]
