"""What `changeledger status` prints about a feed."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from changeledger.cli.status_tables import drawn
from changeledger.config.feed import Feed
from changeledger.control import AuditResult, BuiltSnapshots, ControlStore
from changeledger.model.source_state import SourceState
from changeledger.model.window import Request, Window
from changeledger.model.wording import duration
from changeledger.state.status import FeedStatus, gather
from tests.released import release

AT = datetime(2026, 8, 7, 16, 25, tzinfo=UTC)


def lines(*feeds: FeedStatus) -> list[str]:
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(drawn(feeds))
    return [" ".join(line.split()) for line in console.export_text().splitlines()]


def test_a_feed_that_has_published_nothing() -> None:
    assert lines(FeedStatus("shop_ces", "ces", "shop")) == ["shop_ces ces of shop", "released nothing yet"]


def test_whatever_there_is_to_say() -> None:
    reported = lines(
        FeedStatus(
            "shop", "debezium", "db", release=7, released_at=AT, released_to=AT, behind=timedelta(hours=30),
            rolled_back=(5, "wrong rows", "ann"),
            failure=("w", "extract", "ConfigError: no login\n  Remedy: correct it", AT),
            incomplete=(("dbo.v", 433, AT, AT), ("dbo.w", 1, None, None)), removed=("dbo.x",),
            holder="a run", open_window="w", failed_rules=("dbo.t: order (3)",),
            masks={"dbo.t": ("big", "proved"), "dbo.u": (None, "no record")},
            pending=(("split_incomplete", 1200, AT),),
            quarantine=((None, "not_json", 2), ("dbo.t", "null_key", 1)),
            breaks=(("dbo.t", "cells_differ", 5),), failed_audits=(("v", ("dbo.t: conservation (2)",)),),
            warnings={"order_ambiguous": 4}, compared=(("cdc", "shop", "differ", AT),),
            verified=("drift", "dbo.t: 2 missing", AT),
        )
    )  # fmt: skip
    assert reported == [
        "shop debezium of db",
        "released to 2026-08-07 16:25:00 UTC, 1 d 6 h ago (release 7, 2026-08-07 16:25:00)",
        "taken back main is release 5 again: wrong rows (ann)",
        "FAILED extract of w, 2026-08-07 16:25:00 UTC: ConfigError: no login Remedy: correct it",
        "INCOMPLETE dbo.v lacks 433 earlier changes: trigger its DAG with the mode `window` "
        "for this table, start",
        "2026-08-07T16:25:00+00:00, end 2026-08-07T16:25:00+00:00, or `changeledger tables --decline`",
        "INCOMPLETE dbo.w lacks 1 earlier change: trigger its DAG with the mode `window` for this table, or "
        "`changeledger",
        "tables --decline`",
        "not read dbo.x: no longer in the feed; the published tables stay",
        "running a run",
        "not released w",
        "failed dbo.t: order (3)",
        "audit failed v: dbo.t: conservation (2)",
        "pending 1,200 x split_incomplete, since 2026-08-07 16:25 UTC",
        "quarantine 2 x not_json (no table)",
        "quarantine 1 x null_key (dbo.t)",
        "image chain 5 x cells_differ (dbo.t)",
        "warning 4 changes with the flag order_ambiguous",
        "compared cdc and shop: differ, 2026-08-07 16:25 UTC",
        "verified drift (dbo.t: 2 missing), as of 2026-08-07 16:25 UTC",
        "masks dbo.t: big, proved",
        "masks dbo.u: not proved, no record",
    ]


def test_what_was_read_and_what_waits() -> None:
    """`released to` is a time of the clock: a window without records is released, too."""
    hour = timedelta(hours=1)
    states = (
        SourceState("a[0]", "5", "5", AT, 0, newest=AT - hour),
        SourceState("a[1]", "5", "1205", AT, 1200, AT - 9 * hour, AT - 9 * hour, "a transaction is open"),
        SourceState("b[0]", "5", "5", AT, 0, why="its clock is ahead"),
    )
    reported = lines(FeedStatus("shop", "ces", "db", sources=states, late=(states[1].text(),)))
    assert reported[2:] == [
        "source looked at 2026-08-07 16:25:00 UTC; newest record 2026-08-07 15:25:00 UTC; 1,200 records "
        "behind the end,",
        "since 2026-08-07 07:25:00 UTC",
        "LATE a[1]: 1,200 records behind the end, since 2026-08-07 07:25:00 UTC; a transaction is open",
        "source b[0]: 0 records behind the end; its clock is ahead",
    ]


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (timedelta(0), "0 s"),
        (timedelta(seconds=59.9), "59 s"),
        (timedelta(seconds=61), "1 min 1 s"),
        (timedelta(hours=2), "2 h 0 min"),
        (timedelta(days=3, hours=4, minutes=5), "3 d 4 h"),
    ],
)
def test_durations_in_two_units(time: timedelta, said: str) -> None:
    assert duration(time) == said


FEED = Feed.model_validate(
    {
        "feed": "stands", "dialect": "ces", "database": "shop", "connection": "c",
        "source": {"topics": ["t"]}, "tables": [{"table": "dbo.t"}],
    }
)  # fmt: skip
HOUR = timedelta(hours=1)


def audited(control: ControlStore, hour: int, *, stops: bool, **request: Any) -> Window:
    over = Window(start=AT + hour * HOUR, end=AT + (hour + 1) * HOUR, request=Request(**request))
    control.windows.open(FEED.feed, over, None, {"t": hour})
    detail = {"stops": stops}
    control.audits.save(
        FEED.feed,
        over,
        [
            AuditResult("dbo.t", "order", False, 3, detail),
            AuditResult("dbo.t", "rows", True, 0, {"stops": False}),
        ],
        BuiltSnapshots("branch", {}),
    )
    return over


def test_a_failed_audit_is_shown_until_its_records_are_released(spark: SparkSession, tmp_path: Path) -> None:
    """The next window takes its records, too. While that window runs, none of them is published."""
    control = ControlStore(f"sqlite:///{tmp_path}/control.db")
    failed = audited(control, 1, stops=True)
    status = gather(control, FEED)
    assert (status.open_window, status.failed_rules) == (failed.id, ("dbo.t: order (3)",))
    assert status.failed_audits == ()
    # This failure is reported, but does not stop the run.
    audited(control, 2, stops=False)
    running = Window(start=AT + 3 * HOUR, end=AT + 4 * HOUR)
    control.windows.open(FEED.feed, running, None, {"t": 3})
    status = gather(control, FEED)
    assert (status.open_window, status.failed_rules) == (running.id, ())
    assert status.failed_audits == ((failed.id, ("dbo.t: order (3)",)),)
    # The release of an earlier window does not contain these records.
    past = Window(start=AT, end=AT + HOUR)
    control.windows.open(FEED.feed, past, None, {"t": 0})
    release(control, FEED.feed, (), past, position={"t": 0})
    assert gather(control, FEED).failed_audits == status.failed_audits
    release(control, FEED.feed, (), running, position={"t": 3})
    assert gather(control, FEED).failed_audits == ()


def test_a_failed_replay_is_shown_until_the_next_release(spark: SparkSession, tmp_path: Path) -> None:
    """A replay has no window of its own: the next release includes the records on its list."""
    control = ControlStore(f"sqlite:///{tmp_path}/control.db")
    hours = [Window(start=AT + at * HOUR, end=AT + (at + 1) * HOUR) for at in range(2)]
    control.windows.open(FEED.feed, hours[0], None, {"t": 0})
    release(control, FEED.feed, (), hours[0], position={"t": 0})
    failed = audited(control, 0, stops=True, mode="replay", run="manual__1")
    control.windows.open(FEED.feed, hours[1], {"t": 0}, {"t": 1})
    assert gather(control, FEED).failed_audits == ((failed.id, ("dbo.t: order (3)",)),)
    release(control, FEED.feed, (), hours[1], position={"t": 1})
    assert gather(control, FEED).failed_audits == ()
