"""Each rule of docs/cutover.md on whether to switch feeds, against a real control store."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from changeledger.config.files import readable_feeds
from changeledger.config.settings import PROJECT
from changeledger.control import ControlStore
from changeledger.control.failures import failure_kept
from changeledger.kernels import lateness
from changeledger.model.contract import Contract
from changeledger.model.errors import ConfigError, FeedsDisagree
from changeledger.model.window import SourceRead, Window
from changeledger.reports import cutover as report
from changeledger.state import cutover
from changeledger.state.cutover import Period
from changeledger.state.cutover_json import as_json
from changeledger.state.quarantine import Group
from changeledger.state.verdict import GO, NO_GO, NOT_YET, NOTE, Verdict, judge
from tests.state.pairs import DATABASE, NEW, OLD, TABLE, compare, feeds, prove, release

NOW = datetime(2026, 1, 31, tzinfo=UTC)
WEEK = Period(NOW - timedelta(days=7), NOW)
DAY = timedelta(days=1)


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlStore:
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    return ControlStore(f"sqlite:///{tmp_path}/control.db")


def agree(control: ControlStore) -> None:
    """Stores two adjacent comparisons that begin before the period, and a proof of today."""
    compare(control, 1, 5, NOW - 10 * DAY, NOW - 4 * DAY)
    compare(control, 5, 9, NOW - 4 * DAY, NOW)
    prove(control, NOW)


def facts(control: ControlStore, *tables: str, only_old: tuple[str, ...] = ()) -> cutover.CutoverFacts:
    known = feeds(*tables, only_old=only_old)
    return cutover.gather(control, DATABASE, known, (known[OLD], known[NEW]), WEEK)


def judged(control: ControlStore, *tables: str, only_old: tuple[str, ...] = ()) -> Verdict:
    return judge(facts(control, *tables, only_old=only_old), 1000)


def codes(verdict: Verdict, kind: str) -> list[str]:
    return [reason.code for reason in verdict.of(kind)]


def test_go_when_all_of_the_period_agrees_and_is_proved(control: ControlStore) -> None:
    agree(control)
    verdict = judged(control)
    assert (verdict.verdict, codes(verdict, NO_GO), codes(verdict, NOT_YET)) == (GO, [], [])
    # The verdict names what is never compared, even then.
    assert codes(verdict, NOTE) == ["last_transaction"]


@pytest.mark.parametrize(
    ("reference", "counted", "code"),
    [
        (OLD, "missing", "lost"), (NEW, "extra", "lost"),
        (OLD, "extra", "surplus"), (NEW, "missing", "surplus"),
        (OLD, "differs", "differs"), (OLD, "order", "order"),
    ],
)  # fmt: skip
def test_one_unexplained_difference_is_a_no_go(
    control: ControlStore, reference: str, counted: str, code: str
) -> None:
    prove(control, NOW)
    compare(control, 1, 9, NOW - 10 * DAY, NOW, reference=reference, equal=10**6, **{counted: 1})
    verdict = judged(control)
    assert (verdict.verdict, codes(verdict, NO_GO)) == (NO_GO, [code])


def test_what_a_table_lacks_that_the_successor_does_not_read(control: ControlStore) -> None:
    agree(control)
    control.feed_tables.save(NEW, "dbo.removed", 7)
    assert judged(control).verdict == GO
    control.feed_tables.save(NEW, TABLE, 7)
    assert codes(judged(control), NO_GO) == ["lacking"]


def test_an_accepted_difference_is_for_whoever_signs(control: ControlStore) -> None:
    prove(control, NOW)
    compare(control, 1, 9, NOW - 10 * DAY, NOW, equal=5000, missing=3)
    control.comparisons.accept("shop", "<b>test rows</b>", "ann")
    known = facts(control)
    verdict = judge(known, 1000)
    assert verdict.verdict == GO
    assert verdict.of(NOTE)[0].text == f"{TABLE}: 3 differences accepted by ann: <b>test rows</b>"
    assert "&lt;b&gt;test rows" in report.page(known, verdict)
    assert "<b>test rows" not in report.page(known, verdict)


def test_commit_times_that_are_apart_are_for_whoever_signs(control: ControlStore) -> None:
    prove(control, NOW)
    compare(control, 1, 9, NOW - 10 * DAY, NOW, expected=5000, commit_time=5000)
    verdict = judged(control)
    assert (verdict.verdict, codes(verdict, NOTE)) == (GO, ["commit_time", "last_transaction"])
    assert verdict.of(NOTE)[0].text == "5,000 events have commit times that are more than 5 seconds apart"


def test_comparisons_of_earlier_versions_have_fewer_classes(control: ControlStore) -> None:
    agree(control)
    for row in control.comparisons.of_database("shop", NOW - 30 * DAY):
        row.counts = {name: n for name, n in row.counts.items() if name != "commit_time"}
        control.comparisons.save(row)
    assert judged(control).verdict == GO


Breaks = Callable[[ControlStore], None]


def _failed(name: str) -> Breaks:
    return lambda control: control.failures.save_of_database(name, "SparkUnavailable: gone")


def _begun_late(control: ControlStore) -> None:
    compare(control, 1, 9, NOW - 2 * DAY, NOW)


def _hole(control: ControlStore) -> None:
    compare(control, 1, 4, NOW - 10 * DAY, NOW - 5 * DAY)
    compare(control, 5, 9, NOW - 4 * DAY, NOW)


def _few(control: ControlStore) -> None:
    compare(control, 1, 9, NOW - 10 * DAY, NOW, equal=10)


@pytest.mark.parametrize(
    ("before", "code"),
    [
        (lambda _: None, "never_compared"), (_begun_late, "not_covered"), (_hole, "hole"),
        (_few, "too_few_events"),
    ],
)  # fmt: skip
def test_not_yet_while_the_period_is_not_compared(control: ControlStore, before: Breaks, code: str) -> None:
    prove(control, NOW)
    before(control)
    verdict = judged(control)
    assert (verdict.verdict, codes(verdict, NOT_YET)) == (NOT_YET, [code])


def test_how_much_longer(control: ControlStore) -> None:
    prove(control, NOW)
    _begun_late(control)
    verdict = judged(control)
    assert verdict.until == NOW + 5 * DAY
    assert "5 days from now" in verdict.reasons[0].text


@pytest.mark.parametrize(
    ("then", "verdict", "code"),
    [
        (lambda c: prove(c, NOW, "drift"), NO_GO, "drift"),
        (lambda c: prove(c, NOW, "waiting"), NOT_YET, "proof_waits"),
        (lambda c: prove(c, NOW - 8 * DAY), NOT_YET, "old_proof"),
        (_failed("compare_shop"), NOT_YET, "compare_failed"),
        (_failed("verify_shop"), NOT_YET, "verify_failed"),
    ],
)
def test_proofs_and_failed_runs(control: ControlStore, then: Breaks, verdict: str, code: str) -> None:
    agree(control)
    then(control)
    judgement = judged(control)
    assert judgement.verdict == verdict
    assert codes(judgement, verdict) == [code]


def test_a_table_that_was_not_looked_at_is_not_equal(control: ControlStore) -> None:
    agree(control)
    missing = judged(control, TABLE, "dbo.orders")
    assert codes(missing, NOT_YET) == ["table_never_compared", "no_proof"]
    compare(control, 1, 5, NOW - 10 * DAY, NOW - 4 * DAY, table="dbo.orders")
    behind = judged(control, TABLE, "dbo.orders")
    assert "table_left_behind" in codes(behind, NOT_YET)
    lost = judged(control, only_old=("dbo.parts",))
    assert (lost.verdict, codes(lost, NO_GO)) == (NO_GO, ["table_not_read"])


KEY = {"name": "id", "type": "int", "ordinal": 1, "key_position": 1}
EMAIL = {"name": "Email", "type": "nvarchar(50)", "ordinal": 2}


def publish(control: ControlStore, feed: str, hour: int, *columns: dict[str, Any]) -> None:
    contract = Contract.model_validate({"table": TABLE, "columns": [KEY, *columns]})
    start = NOW - timedelta(hours=hour)
    release(control, feed, Window(start=start, end=start + timedelta(hours=1)), contract)


def test_a_column_that_the_successor_has_not_is_a_no_go(control: ControlStore) -> None:
    agree(control)
    publish(control, OLD, 3, EMAIL)
    publish(control, NEW, 3)
    verdict = judged(control)
    assert (verdict.verdict, codes(verdict, NO_GO)) == (NO_GO, ["column_not_read"])
    assert f"{TABLE}.Email, which {OLD} has" in verdict.of(NO_GO)[0].text
    # The successor does not read the column, but the old feed does not publish it, either.
    publish(control, OLD, 2, EMAIL | {"publish": {"drop": True}})
    assert judged(control).verdict == GO


def test_a_column_that_is_not_compared_is_for_whoever_signs(control: ControlStore) -> None:
    """A computed column has values in no feed, and the source may have dropped a column still captured."""
    agree(control)
    fax = {"name": "fax", "type": "int", "ordinal": 3, "dropped": True}
    publish(control, OLD, 3, EMAIL, fax, {"name": "total", "type": "int", "ordinal": 4, "computed": True})
    publish(control, NEW, 3, EMAIL | {"name": "email"}, {"name": "phone", "type": "int", "ordinal": 3})
    verdict = judged(control)
    assert (verdict.verdict, codes(verdict, NOTE)) == (GO, ["column_not_compared", "last_transaction"])
    expected = f"{TABLE}.fax (only {OLD} has it), {TABLE}.phone (only {NEW} has it)"
    assert verdict.of(NOTE)[0].text == f"not compared: {expected}"


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        ({"lacking": {TABLE: 7}}, "lacking"),
        ({"gaps": ["dbo_customers_CT: 3 records were removed before they could be read"]}, "gap"),
        ({"records": 100, "quarantined": [Group(TABLE, "not_json", 2)]}, "quarantine"),
    ],
)
def test_what_the_successor_has_lost_is_a_no_go(
    control: ControlStore, seen: dict[str, Any], code: str
) -> None:
    agree(control)
    known = facts(control)
    lost = replace(known, new=replace(known.new, quarantine_limit=0.01, **seen))
    verdict = judge(lost, 1000)
    assert (verdict.verdict, codes(verdict, NO_GO)) == (NO_GO, [code])
    # The feed in use may have the same losses: they do not affect the verdict.
    assert judge(replace(known, old=lost.new), 1000).verdict == GO


def test_quarantine_up_to_the_limit_is_for_whoever_signs(control: ControlStore) -> None:
    agree(control)
    known = facts(control)
    few = {
        "records": 100,
        "quarantined": [Group(TABLE, "not_json", 1)],
        "quarantine_limit": 0.01,
    }
    verdict = judge(replace(known, new=replace(known.new, **few)), 1000)
    assert (verdict.verdict, codes(verdict, NOTE)) == (GO, ["in_quarantine", "last_transaction"])


@pytest.mark.parametrize(("age", "expected"), [(DAY, []), (DAY + timedelta(seconds=1), ["stale"])])
def test_changes_after_an_old_comparison(control: ControlStore, age: timedelta, expected: list[str]) -> None:
    agree(control)
    known = facts(control)
    compared = replace(known.compared, last_run=NOW - age)
    verdict = judge(replace(known, compared=compared, new=replace(known.new, uncompared=5)), 1000)
    assert codes(verdict, NOT_YET) == expected


def test_a_gap_is_known_by_what_a_window_has_read(control: ControlStore) -> None:
    window = Window(start=NOW - DAY, end=NOW)
    control.windows.open(NEW, window, None, {})
    control.sources.save_reads(NEW, window, [SourceRead("topic[0]", 5, 2, 3), SourceRead("topic[1]", 4, 4)])
    seen = facts(control).new
    assert seen.records == 6
    assert seen.gaps == ["topic[0]: 3 records were removed before they could be read"]


def test_how_the_last_run_failed_is_kept_until_one_ends_well(control: ControlStore) -> None:
    with pytest.raises(ValueError, match="gone"), failure_kept(lambda: control.failures, "compare_shop"):
        raise ValueError("gone")
    failure = facts(control).compare_failure
    assert failure is not None
    assert failure.error == "ValueError: gone"
    # The run has ended, and reported what it found.
    with pytest.raises(FeedsDisagree), failure_kept(lambda: control.failures, "compare_shop"):
        raise FeedsDisagree("they differ", "look")
    assert facts(control).compare_failure is None
    with pytest.raises(ValueError, match="gone"), failure_kept(lambda: control.failures, "compare_shop"):
        raise ValueError("gone")
    with failure_kept(lambda: control.failures, "compare_shop"):
        pass
    assert facts(control).compare_failure is None


def test_a_period_ends_where_a_comparison_reaches_out_of_it(control: ControlStore) -> None:
    agree(control)
    table = facts(control).compared.tables[TABLE]
    # The spans of the earlier comparison that begin within the period contain all of its effects.
    assert (table.events, table.in_period, table.unexplained) == (10_000, 10_000, 0)


def test_the_pair_is_named_right(control: ControlStore) -> None:
    with pytest.raises(ConfigError, match="no feed 'shop_debezum'"):
        cutover.pair_of(DATABASE, feeds(), OLD, "shop_debezum")
    with pytest.raises(ConfigError, match="cannot replace itself"):
        cutover.pair_of(DATABASE, feeds(), OLD, OLD)
    assert not readable_feeds(PROJECT / "include" / "feeds")[1]


def test_json_says_what_the_page_says(control: ControlStore) -> None:
    agree(control)
    known = facts(control)
    said = json.loads(json.dumps(as_json(known, judge(known, 1000))))
    assert (said["verdict"], said["compared"]["events"]) == ("go", 10_000)
    assert said["tables"][TABLE]["proof"]["outcome"] == "proven"
    page = report.page(known, judge(known, 1000))
    assert "GO" in page
    assert "://" not in page


def test_lateness_is_weighed_by_changes() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = pa.table({
        "operation": ["update"] * 100 + ["snapshot", "insert"],
        "committed_at": pa.array([at] * 99 + [at - timedelta(seconds=50)] + [at - DAY, at - DAY],
                                 pa.timestamp("us", tz="UTC")),
        "flags": pa.array([None] * 101 + [["clock_suspect"]], pa.list_(pa.string())),
    })  # fmt: skip
    kept = lateness.committed([lateness.timed(rows)])
    assert kept is not None
    window = lateness.Committed(**json.loads(json.dumps(kept)))
    weighed = lateness.lateness([(at + timedelta(seconds=10), window)])
    assert weighed == (100, timedelta(seconds=10), timedelta(seconds=10), timedelta(seconds=60))
    later = lateness.Committed(900, [int(at.timestamp() * 1e6)] * 101)
    both = lateness.lateness([(at + timedelta(seconds=10), window), (at + timedelta(seconds=30), later)])
    assert both is not None
    assert (both.p50, both.worst) == (timedelta(seconds=30), timedelta(seconds=60))
