"""What `changeledger status` prints of a feed."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from changeledger.inspection.shown import drawn, duration
from changeledger.inspection.status import FeedStatus

AT = datetime(2026, 8, 7, 16, 25, tzinfo=UTC)


def lines(*feeds: FeedStatus) -> list[str]:
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(drawn(feeds))
    return [" ".join(line.split()) for line in console.export_text().splitlines()]


def test_a_feed_that_has_published_nothing() -> None:
    assert lines(FeedStatus("shop_ces", "ces", "shop")) == ["shop_ces ces of shop", "released nothing yet"]


def test_whatever_there_is_to_say() -> None:
    told = lines(
        FeedStatus(
            "shop", "debezium", "db", release=7, released_at=AT, released_to=AT, behind=timedelta(hours=30),
            holder="a run", open_window="w", failed_rules=("dbo.t: order (3)",),
            masks={"dbo.t": ("big", "proved"), "dbo.u": (None, "no record")},
            pending=(("split_incomplete", 1200, AT),),
            quarantine=((None, "not_json", 2), ("dbo.t", "null_key", 1)),
            breaks=(("dbo.t", "cells_differ", 5),),
            doubts={"order_ambiguous": 4}, compared=(("cdc", "shop", "differ", AT),),
            verified=("drift", "dbo.t: 2 missing", AT),
        )
    )  # fmt: skip
    assert told == [
        "shop debezium of db",
        "released to 2026-08-07 16:25:00 UTC, 1 d 6 h ago (release 7, 2026-08-07 16:25:00)",
        "at work a run",
        "not released w",
        "violated dbo.t: order (3)",
        "pending 1,200 x split_incomplete, since 2026-08-07 16:25 UTC",
        "quarantine 2 x not_json (no table)",
        "quarantine 1 x null_key (dbo.t)",
        "image chain 5 x cells_differ (dbo.t)",
        "in doubt 4 changes are order_ambiguous",
        "compared cdc and shop: differ, 2026-08-07 16:25 UTC",
        "verified drift (dbo.t: 2 missing), as of 2026-08-07 16:25 UTC",
        "masks dbo.t: big, proved",
        "masks dbo.u: not proved, no record",
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
