"""How feeds stand, from a real control store: the level, and the reason if a feed needs attention."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from changeledger.config.feed import Feed
from changeledger.control import Asked, AuditResult, BuiltSnapshots, ComparisonRow, ControlStore, ProofRow
from changeledger.model.source_state import SourceState
from changeledger.model.window import Request, Window
from changeledger.state import overview
from changeledger.state.overview import BAD, GOOD, IDLE, RUNS, STALE, WARNED, FeedLine
from changeledger.state.windows import (
    EMPTY,
    FAILED,
    OPEN,
    RELEASED,
    RUNNING,
    TAKEN_BACK,
    failed_of,
    stage_seconds,
    window_states,
)
from tests.released import release

HOUR = timedelta(hours=1)
NOW = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
FEED = Feed.model_validate(
    {
        "feed": "shop", "dialect": "sqlserver_cdc", "database": "shop", "connection": "c", "source": {},
        "tables": [{"table": "dbo.t"}],
    }
)  # fmt: skip
COUNTS = {
    "tables": {"dbo.t": {"changes": {"insert": 5}, "current": 50, "history": 70}},
    "records": 9,
    "in_quarantine": 0,
}


@pytest.fixture
def store(tmp_path: Path) -> ControlStore:
    return ControlStore(f"sqlite:///{tmp_path}/control.db")


def ago(hours: int, **request: Any) -> Window:
    return Window(start=NOW - (hours + 1) * HOUR, end=NOW - hours * HOUR, request=Request(**request))


def released(store: ControlStore, hours: int, **counts: Any) -> int:
    return release(store, "shop", [], ago(hours), {}, {**COUNTS, **counts}, {"lsn": f"{100 - hours:020X}"})


def failing_audit(store: ControlStore, window: Window) -> None:
    store.windows.open("shop", window, None, {"lsn": f"{99:020X}"})
    detail = {"says": "a rule", "severity": "error", "stops": True, "tolerated": None, "error": None}
    verdicts = [AuditResult("dbo.t", "order_strict", False, 3, detail)]
    verdicts.append(AuditResult("dbo.t", "lsn_width", True, 0, {**detail, "stops": False}))
    store.audits.save("shop", window, verdicts, BuiltSnapshots("b", {}))


def line(store: ControlStore) -> FeedLine:
    newest = store.releases.latest("shop")
    if newest is not None:
        store.releases.complete("shop", newest.id)
    return overview.line(store, FEED, store.overview.rows_of("shop", overview.LAST))


def test_nothing_has_run(store: ControlStore) -> None:
    only = line(store)
    assert (only.level, only.windows, only.why, only.rows, only.reach) == (IDLE, [], None, None, None)


def test_a_healthy_feed(store: ControlStore) -> None:
    released(store, 1)
    store.windows.open("shop", ago(0), {"lsn": f"{99:020X}"}, {"lsn": f"{100:020X}"})
    store.windows.close_empty("shop", ago(0), {"lsn": f"{100:020X}"})
    only = line(store)
    assert (only.level, only.why, only.rows, only.release) == (GOOD, None, 50, 1)
    assert [window.outcome for window in only.windows] == [EMPTY, RELEASED]
    assert only.released_to == NOW


def test_windows_keep_their_releases_behind_a_backfill(store: ControlStore) -> None:
    """Hours from long ago are released last, and there are more of them than a page shows."""
    hours = range(overview.LAST + 5)
    numbers = [released(store, ago_hours) for ago_hours in hours]
    only = line(store)
    assert [window.release for window in only.windows] == numbers[: overview.LAST]
    assert {window.records for window in only.windows} == {COUNTS["records"]}
    assert only.release == numbers[-1]


def test_of_many_stopped_windows_the_last_ones_are_named(store: ControlStore) -> None:
    for hours in range(5, 0, -1):
        failing_audit(store, ago(hours))
    *named, others = line(store).reasons
    assert [reason.argument for reason in named] == [ago(hours).id for hours in (1, 2, 3)]
    assert (others.text, others.argument) == ("The audit has stopped 2 other windows before.", ago(4).id)


def test_an_audit_that_stops_says_by_which_rule(store: ControlStore) -> None:
    released(store, 1)
    failing_audit(store, ago(0))
    only = line(store)
    assert only.level == BAD
    why = only.reasons[0]
    assert why.text == "The audit has stopped a window: order_strict of dbo.t is violated by 3 rows."
    assert (why.place, why.argument) == ("window", ago(0).id)
    assert (only.judged, only.violated) == (2, 1)
    assert only.windows[0].outcome == FAILED


def test_the_last_audit_stays_while_the_next_window_is_read(store: ControlStore) -> None:
    failing_audit(store, ago(1))
    assert line(store).is_stopped
    store.windows.open("shop", ago(0), None, {"lsn": f"{99:020X}"})
    only = line(store)
    assert (only.judged, only.violated, only.is_stopped) == (2, 1, True)


def test_the_last_audit_stays_while_windows_bring_nothing(store: ControlStore) -> None:
    """The verdict stays visible even after hours without a change."""
    released(store, 5)
    tolerated = {"says": "", "severity": "error", "stops": False, "tolerated": "known", "error": None}
    verdicts = [AuditResult("dbo.t", "order_strict", False, 3, tolerated)]
    verdicts.append(AuditResult("dbo.t", "lsn_width", True, 0, tolerated))
    store.audits.save("shop", ago(5), verdicts, BuiltSnapshots("b", {}))
    for hours in range(4, -1, -1):
        store.windows.open("shop", ago(hours), {"lsn": f"{99:020X}"}, {"lsn": f"{100:020X}"})
        store.windows.close_empty("shop", ago(hours), {"lsn": f"{100:020X}"})
    only = line(store)
    assert [window.outcome for window in only.windows] == [EMPTY] * 5 + [RELEASED]
    assert (only.audited, only.judged, only.violated, only.is_stopped) == (ago(5).id, 2, 1, False)


def test_a_window_has_failed_its_own_rules_alone(store: ControlStore) -> None:
    failing_audit(store, ago(2))
    store.windows.open("shop", ago(1), None, {"lsn": f"{99:020X}"})
    rows = store.overview.rows_of("shop", overview.LAST)
    newest, older = window_states(rows)
    assert failed_of(rows, newest) == failed_of(rows, None) == []
    assert [rule.rule for rule in failed_of(rows, older)] == ["order_strict"]


def test_a_later_release_settles_a_failed_audit(store: ControlStore) -> None:
    failing_audit(store, ago(2))
    released(store, 0)
    only = line(store)
    assert (only.level, [window.outcome for window in only.windows]) == (GOOD, [RELEASED, FAILED])
    assert only.windows[1].is_over


def test_a_task_that_failed(store: ControlStore) -> None:
    released(store, 1)
    store.windows.open("shop", ago(0), None, {})
    store.failures.save("shop", ago(0), "reconcile", "SourceUnavailable: no broker\n  Remedy: start it")
    only = line(store)
    assert only.reasons[0].text == "Reconcile has failed: SourceUnavailable: no broker"
    assert only.windows[0].outcome == FAILED


def test_who_runs_is_no_failure(store: ControlStore) -> None:
    store.windows.open("shop", ago(0), None, {})
    assert (
        overview.line(store, FEED, store.overview.rows_of("shop", overview.LAST)).windows[0].outcome == OPEN
    )
    store.leases.acquire("shop", ago(0, run="manual__1").holder, 600)
    only = overview.line(store, FEED, store.overview.rows_of("shop", overview.LAST))
    assert (only.level, only.windows[0].outcome) == (RUNS, RUNNING)


def test_a_source_that_is_not_read_on(store: ControlStore) -> None:
    released(store, 0)
    waiting = SourceState("a[0]", "5", "1205", NOW, 1200, NOW - 30 * HOUR, None, "a transaction is open")
    store.sources.save_states("shop", [waiting, SourceState("a[1]", "7", "7", NOW, 0)])
    only = line(store)
    assert only.reasons[0].text.startswith("It cannot read on: a[0]: 1,200 records behind the end, since ")
    assert only.reach is not None
    assert (only.reach.read, only.reach.end, only.reach.behind) == ("12", "1,212", 1200)
    assert only.reach.late is not None
    assert only.reach.late >= 30 * HOUR


def test_positions_of_a_log_are_written_as_sql_server_does(store: ControlStore) -> None:
    state = SourceState("cdc.lsn_time_mapping", "00000027000001C80003", "00000027000001C80009", NOW)
    reach = overview.reach_of([state], NOW)
    assert reach is not None
    assert (reach.read, reach.end) == ("00000027:000001c8:0003", "00000027:000001c8:0009")


@pytest.mark.parametrize(("read", "waits"), [("20261129045905260000000000000000971", True), (None, False)])
def test_rows_of_a_change_table_wait_though_nobody_counts_them(read: str | None, waits: bool) -> None:
    end = "20261129050426500000000000000001072"
    reach = overview.reach_of([SourceState("dbo.parts__ct", read or end, end, NOW)], NOW)
    assert reach is not None
    assert (reach.behind, reach.late, reach.waits) == (None, None, waits)


def test_marks_of_transactions_are_nothing_that_waits() -> None:
    reach = overview.reach_of([SourceState("a[0]", "5", "6", NOW, 0)], NOW)
    assert reach is not None
    assert not reach.waits


def test_stale(store: ControlStore) -> None:
    released(store, 9)
    only = line(store)
    assert only.level == STALE
    assert only.reasons[0].text.startswith("Stale: nothing newer than ")


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ({"dispositions": [["quarantined", "not_json", 4]]}, "4 records could not be read lately."),
        ({"tolerated": [["dbo.t", "order", 2, "known"]]}, "Tolerated: order of dbo.t (2), because: known"),
    ],
)
def test_what_is_worth_a_look(store: ControlStore, counts: Mapping[str, Any], says: str) -> None:
    released(store, 0, **counts)
    only = line(store)
    assert (only.level, only.why and only.reasons[0].text) == (WARNED, says)


def quarantining(store: ControlStore, window: Window, brought: int, in_quarantine: int) -> None:
    """Releases a window that adds `brought` records to the quarantine.

    `in_quarantine`: the number of records in quarantine afterwards.
    """
    dispositions = [["quarantined", "not_json", brought]] if brought else []
    counts = {**COUNTS, "dispositions": dispositions, "in_quarantine": in_quarantine}
    release(store, "shop", [], window, {}, counts, {"lsn": f"{99:020X}"})


def test_records_that_were_read_again_are_no_news(store: ControlStore) -> None:
    quarantining(store, ago(1), 4, 4)
    quarantining(store, ago(0, mode="replay", tables=("dbo.t",), run="a"), 2, 3)
    assert line(store).quarantined == 3
    quarantining(store, ago(0, mode="replay", run="b"), 1, 1)
    assert line(store).quarantined == 1


def test_what_a_failed_replay_has_asked_for_counts_once_when_the_next_run_reads_it(
    store: ControlStore,
) -> None:
    quarantining(store, ago(2), 4, 4)
    failing_audit(store, ago(1, mode="replay", run="a"))
    quarantining(store, ago(1), 4, 4)
    assert line(store).quarantined == 4, "those that stay there"
    quarantining(store, ago(0), 1, 5)
    assert line(store).quarantined == 5


def test_records_of_windows_long_ago_are_no_news(store: ControlStore) -> None:
    for hours in range(overview.LAST + 2, 0, -1):
        quarantining(store, ago(hours), 0, 7)
    assert line(store).quarantined == 0
    quarantining(store, ago(0), 2, 9)
    assert line(store).quarantined == 2
    store.rollbacks.commit("shop", overview.LAST, {}, Asked("wrong rows", "ann"))
    assert line(store).quarantined == 0, "it went with its release"


def test_a_window_that_failed_before_it_read_anything_is_in_the_strip(store: ControlStore) -> None:
    released(store, 1)
    store.failures.save("shop", ago(0), "extract", "ConfigError: no connection\n  Remedy: create it")
    only = line(store)
    assert [(window.id, window.outcome, window.is_stored) for window in only.windows] == [
        (ago(0).id, FAILED, False),
        (ago(1).id, RELEASED, True),
    ]
    assert (only.windows[0].start, only.windows[0].end) == (ago(0).start, ago(0).end)
    assert only.reasons[0].argument == ago(0).id
    released(store, 0)
    store.failures.forget("shop")
    assert [window.outcome for window in line(store).windows] == [RELEASED, RELEASED]


def test_a_released_window_whose_stage_fails_again_long_after_is_no_failed_window(
    store: ControlStore,
) -> None:
    for hours in range(overview.LAST + 2, -1, -1):
        released(store, hours)
    store.failures.save("shop", ago(overview.LAST + 2), "normalize", "SourceUnavailable: no broker")
    assert {window.outcome for window in line(store).windows} == {RELEASED}
    assert line(store).level == BAD


def test_what_became_of_the_records(store: ControlStore) -> None:
    released(store, 0, records=20, dispositions=[["paired", None, 4], ["duplicate", "delivered_again", 1]])
    (window,) = line(store).windows
    assert window.outcomes == {"change": 15, "paired": 4, "duplicate": 1}


def test_taken_back(store: ControlStore) -> None:
    for hours in (2, 1, 0):
        released(store, hours)
    assert store.overview.rows_of("shop", 1).tables == COUNTS["tables"]
    store.rollbacks.commit("shop", 1, {}, Asked("wrong rows", "ann"))
    tables = store.overview.rows_of("shop", 1).tables
    assert tables == {"dbo.t": {"changes": {}, "current": 50, "history": 70}}, "it has changed nothing itself"
    only = line(store)
    assert [window.outcome for window in only.windows] == [TAKEN_BACK, TAKEN_BACK, RELEASED]
    assert any(reason.text == "Taken back to release 1 by ann: wrong rows" for reason in only.reasons)
    store.rollbacks.commit("shop", 3, {}, Asked("they were right", "ann"))
    assert line(store).reasons == []


def compared(feed: str, table: str, outcome: str, at: datetime) -> ComparisonRow:
    return ComparisonRow(
        id=f"{feed}{table}{at}", database="shop", table=table, reference="other", feed=feed, outcome=outcome,
        counts={}, columns={}, spans=[], at=at, from_lsn=f"{at.hour:020X}", to_lsn=f"{at.hour + 1:020X}",
    )  # fmt: skip


def test_the_last_comparison_of_each_table_counts_and_open_disagreements(store: ControlStore) -> None:
    released(store, 0)
    at = NOW.replace(hour=3)
    store.comparisons.save(compared("shop", "dbo.t", "warn", at))
    store.comparisons.save(compared("shop", "dbo.t", "agree", at + HOUR))
    assert line(store).compared == "agree"
    store.comparisons.save(compared("shop", "dbo.u", "differ", at))
    store.comparisons.save(compared("shop", "dbo.u", "agree", at + 2 * HOUR))
    only = line(store)
    assert (only.compared, only.level) == ("differ", BAD)


def proof(outcome: str, against: str, at: datetime, rows: int = 5) -> ProofRow:
    return ProofRow(
        id=f"{against}{at}", against=against, snapshot_id="s", database="shop", table="dbo.t", feed="shop",
        release=1, outcome=outcome, since=at, until=at, counts={"rows": rows}, at=at,
    )  # fmt: skip


def test_a_proof_by_the_source_settles_what_a_topic_said(store: ControlStore) -> None:
    released(store, 0)
    store.proofs.save(proof("drift", "topic", NOW - 2 * HOUR))
    assert line(store).proven == "drift"
    store.proofs.save(proof("proven", "source", NOW - HOUR))
    assert line(store).proven == "proven"


def test_who_needs_somebody_comes_first(store: ControlStore) -> None:
    released(store, 0)
    store.releases.complete("shop", 1)
    other = FEED.model_copy(update={"feed": "zoo"})
    store.failures.save("zoo", ago(0), "extract", "ConfigError: no login")
    assert [feed_line.feed for feed_line in overview.lines(store, {"shop": FEED, "zoo": other})] == [
        "zoo",
        "shop",
    ]


def test_what_a_table_lacks_that_is_not_read_any_more(store: ControlStore) -> None:
    released(store, 0)
    store.releases.complete("shop", 1)
    store.feed_tables.save("shop", "dbo.removed", 7)
    assert line(store).level == GOOD
    store.feed_tables.save("shop", "dbo.t", 7)
    assert [reason.text for reason in line(store).reasons] == [
        "dbo.t lacks 7 earlier changes: it joined the feed later."
    ]


def test_seconds_of_stages_until_one_that_is_not_known(store: ControlStore) -> None:
    released(store, 0)
    (window,) = line(store).windows
    at = window.opened_at
    ends = {"extract": at + timedelta(seconds=5), "normalize": at + timedelta(seconds=12)}
    assert stage_seconds(window, ends) == {"extract": 5, "normalize": 7}
