"""The fault matrix without its faults: which cells are chosen, what is stored of them, and the page."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from changeledger.model.window import STAGES
from sourcelab.log import simulate
from tests.faults.matrix import cells, soak
from tests.faults.matrix.cells import Cell, Effect
from tests.faults.matrix.effects import same
from tests.faults.matrix.faults import BY_NAME, FAULTS, ON_S3, RETRIES
from tests.faults.matrix.judge import differences
from tests.faults.matrix.outcomes import Outcome, Outcomes, Soak
from tests.faults.matrix.page import page

# The effects of an undisturbed run of the three windows, each stage shortened.
_LABELS = {
    "extract": ["c insert leases", "l NAMESPACE", "c insert windows", "l append raw", "c insert reads"],
    "normalize": ["c insert leases", "c update windows", "l BRANCH t", "l append t", "c insert stages"],
    "reconcile": ["c insert leases", "l BRANCH h", "l append h run", "l append t run", "c insert stages"],
    "audit": ["c insert leases", "l CREATE NAMESPACE", "c insert audits"],
    "publish": [
        "c insert leases", "c insert releases", "l set t release", "l set h release",
        "l append releases main", "l set t main", "l set h main", "c update releases", "l drop t run",
    ],
}  # fmt: skip
_FIRST = "l create raw"


def known() -> cells.Known:
    effects = {}
    for window in (1, 2, 3):
        for stage, labels in _LABELS.items():
            reported = [*labels, _FIRST] if (window, stage) == (1, "extract") else labels
            kinds = {"l": "lake", "c": "control"}
            effects[window, stage] = [Effect(n, kinds[s[0]], s[2:]) for n, s in enumerate(reported, start=1)]
    return effects


def outcome(cell: Cell, what: str = "survived", code: str = "a", **members: str) -> Outcome:
    return Outcome(
        cell, "insert leases", what, members.get("detail", ""), 1.5, code, "2026-01-02T03:04:05+00:00"
    )


def test_every_fault_and_every_way_to_go_on_is_chosen() -> None:
    chosen = cells.chosen(known())
    assert {c.fault for c in chosen} == {f.name for f in FAULTS}
    assert {c.retry for c in chosen} == set(RETRIES)
    assert len({c.id for c in chosen}) == len(chosen)


def test_the_job_is_killed_before_between_and_behind_all_effects() -> None:
    """Before each effect and after the last; in the first window only at effects that later ones lack."""
    killed = {(c.window, c.stage, c.at) for c in cells.chosen(known()) if c.fault == "killed"}
    wanted = {(2, s, at) for s in STAGES for at in range(1, len(_LABELS[s]) + 2)}
    assert killed == {*wanted, (1, "extract", 6)}


def test_every_write_is_half_done_and_written_by_two_at_once() -> None:
    effects = known()
    half_done = {(c.stage, c.at) for c in cells.chosen(effects) if (c.fault, c.window) == ("half_done", 2)}
    assert half_done == {(s, at) for s in STAGES[:-1] for at in range(1, len(_LABELS[s]) + 2)}
    together = {(c.stage, c.at) for c in cells.chosen(effects) if (c.fault, c.window) == ("together", 2)}
    assert together == {(s, e.at) for s in STAGES for e in effects[2, s] if e.kind == "lake"}


def test_a_fault_sits_only_where_it_can_be() -> None:
    effects = known()
    for cell in cells.chosen(effects):
        fault = BY_NAME[cell.fault]
        assert cell.stage in fault.stages
        if fault.places in {"lake", "control"}:
            assert effects[cell.window, cell.stage][cell.at - 1].kind == fault.places, cell.id
        assert bool(cell.at) == (fault.places in {"any", "lake", "control"}), cell.id
    by_hand = {c.at for c in cells.chosen(effects) if c.fault == "by_hand"}
    assert by_hand
    assert all(2 < at <= 8 for at in by_hand), "behind the commit point, before its completion"


def test_on_s3_every_write_meets_what_its_stores_can_do() -> None:
    effects = known()
    chosen = cells.chosen(effects, "s3")
    assert {c.fault for c in chosen} == {f.name for f in ON_S3}
    assert {c.lake for c in chosen} == {"s3"}
    assert all(effects[c.window, c.stage][c.at - 1].kind == "lake" for c in chosen if c.at)
    written = [(2, s, e.at) for s in STAGES for e in effects[2, s] if e.kind == "lake"]
    killed = {(c.window, c.stage, c.at) for c in chosen if c.fault == "killed"}
    assert killed == {*written, (1, "extract", 6)}
    assert not {c.id for c in chosen} & {c.id for c in cells.chosen(effects)}
    assert {c.lake for c in islice(cells.by_seed(effects, lake="s3"), 20)} == {"s3"}


def test_the_same_seed_is_the_same_cell() -> None:
    assert [*islice(cells.by_seed(known()), 50)] == [*islice(cells.by_seed(known()), 50)]
    (later,) = islice(cells.by_seed(known(), first=7), 1)
    assert later in [*islice(cells.by_seed(known()), 20)]
    assert len({c.fault for c in islice(cells.by_seed(known()), 200)}) > 10


def test_the_quick_cells_are_at_their_places() -> None:
    effects = known()
    reported = [(c.stage, effects[2, c.stage][c.at - 1].label) for c in cells.quick(effects) if c.at]
    assert reported == [
        ("extract", "append raw"), ("reconcile", "append t run"), ("publish", "set t release"),
        ("publish", "set h main"), ("publish", "insert releases"), ("publish", "insert releases"),
        ("audit", "insert audits"), ("publish", "append releases main"),
    ]  # fmt: skip


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.jsonl"
    first, second, third, *_ = chosen = cells.chosen(known())
    outcomes = Outcomes(file)
    assert next(outcomes.remaining(chosen, "a")) == first
    outcomes.add(outcome(first))
    outcomes.add(outcome(second, "defect"))
    with file.open("a") as cut_off:
        cut_off.write('{"cell": {"fault": "kil')
    again = Outcomes(file)
    assert next(again.remaining(chosen, "a")) == third
    assert next(again.remaining(chosen, "b")) == second, (
        "a defect is tried again on another state of the product"
    )
    assert [o.cell for o in again.all()] == [first, second]


def test_the_last_outcome_of_a_cell_counts(tmp_path: Path) -> None:
    cell = cells.chosen(known())[0]
    outcomes = Outcomes(tmp_path / "outcomes.jsonl")
    for what in ("defect", "survived"):
        outcomes.add(outcome(cell, what))
    assert [o.outcome for o in outcomes.all()] == ["survived"]


def test_the_page_has_what_was_found_and_no_more() -> None:
    effects = known()
    empty = page(effects, [], 120, None)
    assert "0 of 120 chosen cells" in empty
    assert "Defects that stand" not in empty
    reported = [
        outcome(Cell("killed", 2, "publish", 2, "task")),
        outcome(Cell("killed", 2, "publish", 3, "next"), "defect", detail="dbo_customers: 2 rows | missing"),
        outcome(
            Cell("cleaned", 2, "extract", 0, "run"), "stopped", detail="SourceDataLostError: x. Remedy: y"
        ),
        outcome(Cell("killed", 1, "audit", 1, "run", 5)),
        outcome(Cell("rest_lost", 2, "publish", 2, "task", lake="s3")),
    ]
    text = page(effects, reported, 120, Soak(3, 50, {"killed": 2}, 1, [], 600, "c", "2026-01-02T"))
    assert "4 of 120 chosen cells and 1 random ones were run" in text
    assert "3 survived, 1 stopped, 1 defect" in text
    assert "in SQLite, in 4 of them, on S3 with a REST catalog in 1." in text
    on_s3 = text[text.index("## On S3 and a REST catalog") : text.index("## publish")]
    assert "| the catalog commits, and the answer is lost | 1✓ |  |  |  |  |\n" in on_s3
    assert "| the catalog commits, and the answer is lost |  |  |  |  | 1✓ |\n" in on_s3
    assert "| SIGKILL of the job between two effects |  | ✓ | ✗ |" in text
    assert "`killed-w2-publish-03-next` (`insert leases`): dbo_customers: 2 rows \\| missing" in text
    assert "SourceDataLostError: x. Remedy: y" in text
    assert "50 windows of one feed one after the other, 2026-01-02, seed 3" in text
    assert "Wrong, missing or double: nothing." in text
    assert "Faults that took place: SIGKILL of the job between two effects (2)." in text


def test_a_soak_has_a_fault_in_every_window_and_every_change_in_one() -> None:
    chosen = soak.cells(known(), 3, has_disk=True)
    assert [cell.window for cell in chosen] == list(range(1, soak.COUNT + 1))
    assert len({cell.fault for cell in chosen}) == sum(
        soak.is_possible(fault, has_disk=True) for fault in FAULTS
    )
    log = simulate(5, 6 * soak.COUNT)
    spans = soak.windows(log)
    times = [transaction.commit_time for transaction in log.transactions]
    assert sorted(at for begin, end in spans for at in times if begin <= at < end) == sorted(times)


@pytest.mark.parametrize(
    ("statement", "label"),
    [
        (
            "ALTER TABLE lake.shop.t CREATE OR REPLACE BRANCH `run_2020T0Z_2024T0Z_7` AS OF VERSION 77",
            "ALTER TABLE t CREATE OR REPLACE BRANCH run",
        ),
        ("MERGE INTO lake.shop.t.branch_run_2020_7 t USING v s ON a WHEN", "MERGE INTO t.run t"),
        ("DELETE FROM lake.shop.t.branch_run_2020_7 WHERE id IN (1)", "DELETE FROM t.run"),
    ],
)
def test_an_effect_has_the_same_name_in_every_run(statement: str, label: str) -> None:
    assert same(statement) == label


def test_rows_are_compared_with_their_number() -> None:
    whole = {"t": ["a", "b"], "dispositions": ['{"disposition":"control"}'], "problems": [], "raw": ["1"]}
    assert differences(whole, whole) == []
    twice = {**whole, "t": ["a", "b", "b"]}
    (difference,) = differences(whole, twice)
    assert difference.startswith("t: 0 rows missing, 1 more")
    assert differences(whole, {**whole, "raw": []}) == ["raw: 1 rows missing, 0 more, for example 1"]
    again = {**whole, "dispositions": ['{"disposition":"control"}'] * 2 + ['{"disposition":"duplicate"}']}
    assert differences(whole, again)
    assert differences(whole, again, read_again=True) == []
    assert differences(whole, {**twice, "problems": ["p"]}, read_again=True)[0] == "p"
