"""Traffic of the sources of `make up`: some tables are quiet in some hours, all tables in one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from sourcelab.log import Transaction
from sourcelab.tables import TABLES
from sourcelab.traffic import Traffic

NOW = datetime(2026, 8, 7, 16, 25, tzinfo=UTC)
HOUR = timedelta(hours=1)
ALL = {table.full_name for table in TABLES}
OFTEN = {"dbo.customers", "sales.orders"}


def changed(transactions: tuple[Transaction, ...], since: datetime) -> set[str]:
    """Returns the tables that change in the hour that begins at `since`."""
    of_hour = [tx for tx in transactions if since <= tx.commit_time < since + HOUR]
    return {change.table.full_name for tx in of_hour for change in tx.changes}


def test_hours_of_the_past_have_quiet_tables_and_one_is_quiet() -> None:
    reported = Traffic(7, NOW).log.transactions
    assert reported[0].commit_time == datetime(2026, 8, 7, 12, tzinfo=UTC)
    begin = reported[0].commit_time
    hours = [changed(reported[1:], begin + at * HOUR) for at in range(4)]
    assert hours == [ALL, OFTEN, set(), ALL - OFTEN]
    assert len(reported) == 1 + 3 * 66
    moments = [tx.commit_time for tx in reported]
    assert moments == sorted(moments)
    assert max(moments) < datetime(2026, 8, 7, 16, tzinfo=UTC)


def test_it_goes_on_in_the_same_way() -> None:
    traffic = Traffic(7, NOW)
    past = len(traffic.log.transactions)
    moments = [NOW + at * timedelta(minutes=2) for at in range(120)]
    added = [traffic.add(moment) for moment in moments]
    reported = traffic.log.transactions[past:]
    assert len(reported) == sum(added)
    begin = NOW.replace(minute=0)
    assert [changed(reported, begin + at * HOUR) for at in range(4)] == [ALL, OFTEN, set(), ALL - OFTEN]
    lsns = [tx.commit_lsn for tx in traffic.log.transactions]
    assert lsns == sorted(set(lsns))
