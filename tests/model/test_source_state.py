"""Whether a feed is late depends on what extract saw at the source, not on how far its windows reach."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from changeledger.model.source_state import (
    NEVER_CAPTURED,
    NOT_CAPTURED,
    OPEN_TRANSACTION,
    SourceState,
    capture_state,
    partition_state,
)

NOON = datetime(2026, 8, 7, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
ALLOWED = 3 * HOUR


def partition(
    read: int, stable: int, end: int, first: datetime | None = None, earlier: SourceState | None = None
) -> SourceState:
    return partition_state("t[0]", read, stable, end, first=first, newest=None, earlier=earlier, at=NOON)


def test_all_is_read() -> None:
    state = partition(7, 7, 7)
    assert (state.behind, state.since, state.why) == (0, None, None)
    assert not state.is_late(NOON + 100 * HOUR, ALLOWED)


def test_marks_of_transactions_wait_for_nobody() -> None:
    assert partition(7, 9, 9).behind == 0


def test_what_comes_behind_a_window_waits_for_the_next_one() -> None:
    state = partition(7, 9, 9, first=NOON - MINUTE)
    assert (state.behind, state.since, state.why) == (2, NOON - MINUTE, None)
    assert not state.is_late(NOON + 2 * HOUR, ALLOWED, HOUR)
    assert not state.is_late(NOON + 3 * HOUR + 58 * MINUTE, ALLOWED, HOUR)
    assert state.is_late(NOON + 4 * HOUR, ALLOWED, HOUR), "no run has read on"


def test_an_open_transaction_holds_the_feed_back() -> None:
    state = partition(7, 7, 9, first=NOON - MINUTE)
    assert state.why == OPEN_TRANSACTION
    assert not state.is_late(NOON, ALLOWED, HOUR), "every transaction is open for a moment"
    assert state.is_late(NOON + ALLOWED, ALLOWED, 100 * HOUR), "no later run can read on"


@pytest.mark.parametrize(
    ("first", "earlier_end", "since"),
    [
        # A producer may write an old time: a message that the last look did not see has arrived since.
        (NOON - 900 * HOUR, 7, NOON - HOUR),
        (NOON - 900 * HOUR, 8, NOON - 900 * HOUR),
        (NOON - MINUTE, 7, NOON - MINUTE),
        # A producer may also write a future time.
        (NOON + 900 * HOUR, 7, NOON),
    ],
)
def test_a_producers_clock_is_believed_as_far_as_the_looks_allow(
    first: datetime, earlier_end: int, since: datetime
) -> None:
    earlier = SourceState("t[0]", "7", str(earlier_end), NOON - HOUR, 0)
    assert partition(7, 9, 9, first=first, earlier=earlier).since == since


def test_what_still_waits_waits_since_it_was_seen_first() -> None:
    first = partition(7, 7, 9, first=NOON - MINUTE)
    again = replace(first, at=NOON - HOUR, since=NOON - 2 * HOUR)
    assert partition(7, 7, 12, first=NOON - MINUTE, earlier=again).since == NOON - 2 * HOUR


def test_the_newest_record_is_remembered_by_a_window_without_one() -> None:
    earlier = SourceState("t[0]", "7", "7", NOON - HOUR, 0, newest=NOON - 2 * HOUR)
    assert partition(7, 7, 7, earlier=earlier).newest == NOON - 2 * HOUR


def test_a_capture_that_stands_still_is_late() -> None:
    state = capture_state("cdc.lsn_time_mapping", "0A", "0B", NOON - MINUTE, NOON)
    assert (state.read, state.end, state.newest) == ("0A", "0B", NOON - MINUTE)
    assert not state.is_late(NOON, ALLOWED)
    still = capture_state("cdc.lsn_time_mapping", "0B", "0B", NOON - 4 * HOUR, NOON)
    assert (still.is_late(NOON, ALLOWED), still.why) == (True, NOT_CAPTURED)


def test_a_capture_that_never_ran_is_said() -> None:
    state = capture_state("cdc.lsn_time_mapping", "", None, None, NOON)
    assert (state.is_odd, state.why) == (True, NEVER_CAPTURED)


def test_a_clock_that_is_ahead_is_said() -> None:
    state = capture_state("cdc.lsn_time_mapping", "0A", "0B", NOON + 2 * HOUR, NOON)
    assert state.is_odd
    assert "has the time 2026-08-07 14:00:00 UTC, which is in the future" in state.text()


def test_a_look_in_words() -> None:
    state = partition(7, 7, 1209, first=NOON - MINUTE)
    assert state.text() == (
        f"t[0]: 1,202 records behind the end, since 2026-08-07 11:59:00 UTC; {OPEN_TRANSACTION}"
    )
