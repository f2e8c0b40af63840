"""Maintenance keeps windows that someone may continue with. Of others, it keeps that they were released."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import select

from changeledger.audit import suites
from changeledger.audit.narrow_rows import ROWS
from changeledger.audit.rules import Rule
from changeledger.config.feed import Feed
from changeledger.control import AuditResult, BuiltSnapshots, ControlStore, ErasureRow
from changeledger.model.window import Request, SourceRead, Window
from changeledger.spark.rows import Workers
from changeledger.stages.maintain import is_finished, waited_for
from tests.released import release

FEED = Feed.model_validate(
    {
        "feed": "kept", "dialect": "ces", "database": "shop", "connection": "c",
        "source": {"topics": ["t"]}, "tables": [{"table": "dbo.t"}],
    }
)  # fmt: skip
NOON, HOUR = datetime(2026, 8, 7, 12, tzinfo=UTC), timedelta(hours=1)
FAILED = AuditResult("dbo.t", "order", False, 3, {"stops": True})


@pytest.fixture
def control(tmp_path: Path) -> ControlStore:
    return ControlStore(f"sqlite:///{tmp_path}/control.db")


def built(control: ControlStore, hour: int, **request: object) -> Window:
    """A window built on the current release, judged, and not released."""
    over = Window(start=NOON + hour * HOUR, end=NOON + (hour + 1) * HOUR, request=Request(**request))
    control.windows.open(FEED.feed, over, None, {"t": hour})
    control.windows.begin_stage(FEED.feed, over, "normalize")
    snapshots = BuiltSnapshots(f"{over.branch}_1", {"lake.kept.dbo_t": hour})
    control.windows.finish_stage(FEED.feed, over, "normalize", snapshots)
    control.audits.save(FEED.feed, over, [FAILED], snapshots)
    return over


def waiting(control: ControlStore, feed: Feed = FEED) -> list[str]:
    return [window.window_id for window in waited_for(feed, control)]


def test_a_window_is_waited_for_until_its_time_is_released(control: ControlStore) -> None:
    failed = built(control, 1)
    assert waiting(control) == [failed.id], "it could be published"
    release(control, FEED.feed, (), Window(start=NOON, end=NOON + HOUR))
    assert waiting(control) == [failed.id], "main has moved, and its records are not released yet"
    release(control, FEED.feed, (), Window(start=NOON + HOUR, end=NOON + 3 * HOUR))
    assert waiting(control) == []


def test_a_run_that_reads_again_waits_for_nothing_once_main_has_moved(control: ControlStore) -> None:
    again = built(control, 1, mode="window", tables=("dbo.t",), run="manual__1")
    assert waiting(control) == [again.id]
    release(control, FEED.feed, (), Window(start=NOON, end=NOON + HOUR))
    assert waiting(control) == []


def test_a_window_is_given_up_after_some_time(control: ControlStore) -> None:
    built(control, 1)
    assert waiting(control, FEED.model_copy(update={"docs_retention": timedelta(microseconds=1)})) == []


def test_a_window_is_over_once_the_feed_has_what_it_had_to_bring(control: ControlStore) -> None:
    """A window that is not over keeps raw rows, pages and verdicts, however old it is."""
    built(control, 1)
    (failed,) = control.windows.all_open(FEED.feed)
    assert not is_finished(failed, None)
    assert not is_finished(failed, NOON + HOUR)
    assert is_finished(failed, NOON + 2 * HOUR)


def test_what_is_forgotten_of_windows(control: ControlStore) -> None:
    first, second = built(control, 1), built(control, 2)
    for over in (first, second):
        control.sources.save_reads(FEED.feed, over, [SourceRead("t[0]", 1, 1)])
    old = control.upkeep.windows_before(FEED.feed, datetime.now(UTC))
    assert [window.window_id for window in old] == [first.id, second.id]
    assert control.upkeep.windows_before(FEED.feed, old[0].opened_at) == []
    assert control.upkeep.branches_of(FEED.feed, [first.id, second.id]) == {
        f"{w.branch}_1" for w in (first, second)
    }
    control.upkeep.forget_built(FEED.feed, [first.id])
    assert control.upkeep.branches_of(FEED.feed, [first.id, second.id]) == {f"{second.branch}_1"}
    assert len(control.audits.of_window(FEED.feed, first.id)) == 1
    assert len(control.sources.reads(FEED.feed, first.id)) == 1
    control.upkeep.forget_details(FEED.feed, [first.id, second.id])
    assert control.upkeep.branches_of(FEED.feed, [second.id]) == set()
    assert control.sources.reads(FEED.feed, second.id) == []
    assert control.audits.of_window(FEED.feed, second.id) == []
    assert control.windows.row(FEED.feed, first.id) is not None, "that it was opened is kept"


def test_an_erased_release_and_its_note(control: ControlStore) -> None:
    of_t = {"changes": {"insert": 3}, "current": 3, "history": 4}
    published = {"tables": {"dbo.t": of_t, "dbo.u": of_t}, "records": 6}
    release(control, FEED.feed, (), snapshots={"lake.kept.dbo_t": 1}, counts=published)
    newest = control.releases.latest(FEED.feed)
    assert newest is not None
    left = {"current": 2, "history": 2, "changes": 2}
    control.upkeep.move_release(newest, {"lake.kept.dbo_t": 2}, "dbo.t", left)
    newest = control.releases.latest(FEED.feed)
    assert newest is not None
    assert newest.tables == {"lake.kept.dbo_t": 2}
    # What the run has published stays recorded.
    of_tables = {"dbo.t": {"changes": {"insert": 3}, "current": 2, "history": 2}, "dbo.u": of_t}
    assert newest.counts == {"tables": of_tables, "records": 6}
    note = {
        "feed": FEED.feed, "table": "dbo.t", "key_hash": "ab", "by": "me", "counts": {"lake.kept.dbo_t": 3},
    }  # fmt: skip
    control.upkeep.save_erasure(ErasureRow(**note, at=NOON))
    with control.upkeep._transaction() as session:
        (row,) = session.scalars(select(ErasureRow))
    assert {name: getattr(row, name) for name in note} == note
    assert row.at == NOON


def test_pages_of_a_run_are_small(spark: SparkSession, tmp_path: Path) -> None:
    """Great Expectations adds two animated pictures of 3.4 MB, which no page shows."""
    rule = Rule("order_strict", "key", "Nothing is out of order.")
    judged = suites.Judged(Workers(lambda: spark).nothing(ROWS).frame)
    outcomes = suites.validate(judged, {"dbo.t": [rule]}, "run", tmp_path / "run")
    assert outcomes["dbo.t", "order_strict"].success
    files = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 1_000_000
    texts = [file.read_text("utf-8") for file in files if file.suffix in {".html", ".css", ".js"}]
    assert texts
    assert not any(".gif" in text for text in texts)
