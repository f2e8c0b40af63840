"""Finds the hours that a server's clock repeats, and the pass of each commit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeledger.dialects.sqlserver_cdc.clock import (
    FallBack,
    RepeatedHour,
    comes_twice,
    fall_back,
    moment,
    repeated_hours,
)

# When clocks are put back in 2026, by the zones' laws.
PUT_BACK = {
    "Europe/Berlin": datetime(2026, 10, 25, 1, tzinfo=UTC),
    "America/New_York": datetime(2026, 11, 1, 6, tzinfo=UTC),
    "America/St_Johns": datetime(2026, 11, 1, 4, 30, tzinfo=UTC),
    "Australia/Sydney": datetime(2026, 4, 4, 16, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2026, 4, 4, 15, tzinfo=UTC),
    "Pacific/Chatham": datetime(2026, 4, 4, 14, tzinfo=UTC),
    "America/Santiago": datetime(2026, 4, 5, 3, tzinfo=UTC),
}
HOUR = RepeatedHour(datetime(2026, 10, 25, 2), datetime(2026, 10, 25, 3))


@pytest.mark.parametrize(
    ("zone", "start", "end"),
    [
        ("Europe/Berlin", "2026-10-25 02:00", "2026-10-25 03:00"),
        ("America/New_York", "2026-11-01 01:00", "2026-11-01 02:00"),
        ("America/St_Johns", "2026-11-01 01:00", "2026-11-01 02:00"),
        ("Australia/Sydney", "2026-04-05 02:00", "2026-04-05 03:00"),
        ("Australia/Lord_Howe", "2026-04-05 01:30", "2026-04-05 02:00"),
        ("Pacific/Chatham", "2026-04-05 02:45", "2026-04-05 03:45"),
        # From midnight back into the previous day.
        ("America/Santiago", "2026-04-04 23:00", "2026-04-05 00:00"),
        # The only repeated hour of its year, from a change of zone, not of summer time.
        ("Europe/Moscow", "2014-10-26 01:00", "2014-10-26 02:00"),
    ],
)
def test_the_hour_of_a_year(zone: str, start: str, end: str) -> None:
    hour = RepeatedHour(*map(datetime.fromisoformat, (start, end)))
    year = hour.start.year
    assert list(repeated_hours(zone, datetime(year, 1, 1), datetime(year, 12, 31))) == [hour]
    # The hour is found, however little of it the range covers.
    for at in (hour.start, hour.end - timedelta(seconds=1)):
        assert list(repeated_hours(zone, at, at)) == [hour]
        assert comes_twice(at, zone)
    for at in (hour.start - timedelta(seconds=1), hour.end):
        assert not list(repeated_hours(zone, at, at))
        assert not comes_twice(at, zone)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/Phoenix"])
def test_zones_without_one(zone: str) -> None:
    assert not list(repeated_hours(zone, datetime(2020, 1, 1), datetime(2026, 12, 31)))


def lsn(number: int) -> bytes:
    return number.to_bytes(10)


def of(*clocks: str, marked: bool = True) -> FallBack:
    """The fall back found from commits at these times of the night, with LSNs from 1 on."""
    commits = [(lsn(n), datetime.fromisoformat(f"2026-10-25 {clock}")) for n, clock in enumerate(clocks, 1)]
    # The order of reading does not matter.
    return fall_back(HOUR, reversed(commits), marked=marked)


def test_a_time_that_falls_back_is_of_the_second_pass() -> None:
    second_pass = of("01:50", "02:50", "02:10", "03:10", marked=False)
    assert second_pass == FallBack(HOUR, lsn(3), 1)
    assert [second_pass.of(lsn(n)) for n in (2, 3, 4)] == [0, 1, 1]
    # The second pass begins at the first commit that falls back.
    assert of("01:59", "02:10", "02:20", "02:05", "02:58").since == lsn(4)


def test_commits_at_once_are_a_little_out_of_order() -> None:
    """Commits at the same moment may be slightly out of order.

    A server in debezium/debezium#2606 has rows at 16:26:36.387, then 16:26:36.360.
    """
    close = of("01:59", "02:00:00.013", "02:09:59.997", "02:10:00.010", "02:09:59.990", "02:15")
    assert close == FallBack(HOUR), "all in the first pass"
    assert of("02:50", "02:10:00.010", "02:09:59.990").since == lsn(2)


def test_the_order_alone_does_not_tell_the_pass_of_an_hour_that_never_falls_back() -> None:
    assert of("01:55", "02:01", "02:20", "03:10", marked=False) == FallBack(HOUR, lsn(2), None)
    assert of("02:10", "02:20") == FallBack(HOUR, lsn(1), None), "what was before was cleaned up"
    assert of("01:55", "02:01", "02:30", "02:31") == FallBack(HOUR, lsn(3), None), (
        "half an hour without marks"
    )


def test_marks_of_an_idle_log_show_the_first_pass_before_the_second_begins() -> None:
    known = of("01:55", "02:00", "02:05:05", "02:10:10")
    assert known == FallBack(HOUR)
    assert known.of(lsn(9)) == 0


@pytest.mark.parametrize("zone", PUT_BACK)
@given(seed=st.integers(0, 10_000), lag=st.integers(0, 240))
def test_every_commit_has_its_true_time_however_far_the_log_is_captured(
    zone: str, seed: int, lag: int
) -> None:
    """Random commits around the change, with marks. The log is captured in part at first, then completely."""
    rng, change = Random(seed), PUT_BACK[zone]
    minutes = sorted({*range(-180, 180, 5), *(rng.uniform(-180, 180) for _ in range(rng.choice((3, 60))))})
    true = [change + timedelta(minutes=at, milliseconds=rng.uniform(-30, 30)) for at in minutes]
    clock = ZoneInfo(zone)
    commits = [(lsn(n), at.astimezone(clock).replace(tzinfo=None)) for n, at in enumerate(true)]
    for captured in (commits[: len(commits) * lag // 240], commits):
        if not captured:
            continue
        first, last = (of(local for _, local in captured) for of in (min, max))
        hours = [fall_back(hour, captured, marked=True) for hour in repeated_hours(zone, first, last)]
        for (at, local), instant in zip(captured, true, strict=False):
            folds = [hour.of(at) for hour in hours if hour.hour.has(local)]
            assert folds == ([local_fold(instant, clock)] if comes_twice(local, zone) else [])
            assert moment(local, zone, folds[0] if folds else None) == instant


def local_fold(instant: datetime, clock: ZoneInfo) -> int:
    return instant.astimezone(clock).fold
