"""The past that a filled control store records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, select

from changeledger.control.tables.base import ControlTable
from changeledger.control.tables.feeds import FailureRow
from changeledger.control.tables.releases import ReleaseRow
from changeledger.control.tables.windows import StageRow, WindowRow
from sourcelab.filled_store import FilledFeed, fill

HOUR = datetime(2026, 11, 29, 18, tzinfo=UTC)


@pytest.mark.parametrize("now", [HOUR, HOUR + timedelta(seconds=1), HOUR + timedelta(minutes=7)])
def test_nothing_is_of_a_moment_to_come(tmp_path: Path, now: datetime) -> None:
    url = f"sqlite:///{tmp_path / 'control.db'}"
    feeds = [FilledFeed("shop", windows=4), FilledFeed("failed", trouble="failure", windows=4)]
    fill(url, tmp_path / "feeds", feeds, now)
    times: list[tuple[type[ControlTable], str]] = [
        (WindowRow, "end"), (WindowRow, "opened_at"), (StageRow, "at"), (FailureRow, "at"),
        (ReleaseRow, "completed_at"),
    ]  # fmt: skip
    engine = create_engine(url)
    with engine.connect() as connection:
        for table, name in times:
            moments = connection.scalars(select(inspect(table).columns[name])).all()
            assert moments
            assert max(moments) <= now, (table, name)
    engine.dispose()
