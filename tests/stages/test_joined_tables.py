"""Which records a table lacks that the feed lists again: those that runs have passed over meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from changeledger.config.feed import Feed
from changeledger.control import Asked, ControlStore
from changeledger.control.tables.feeds import FeedTableRow
from changeledger.kernels.arrow import table_schema
from changeledger.lake import catalog
from changeledger.model import change
from changeledger.model.contract import Column, Contract
from changeledger.stages.extraction import joined
from tests.control.test_control import hour
from tests.feeds import feed_of
from tests.released import release
from tests.stored_rows import append_rows, record, replace_rows, stored_rows

PARTS = "dbo.parts"
CONTRACT = Contract(table=PARTS, columns=(Column(name="id", type="int", ordinal=1, key_position=1),))
ASKED = Asked("wrong rows", "ann")


@pytest.fixture
def control(tmp_path: Path) -> ControlStore:
    return ControlStore(f"sqlite:///{tmp_path}/control.db")


class Joining:
    """A feed's runs, reduced to which tables they list."""

    def __init__(self, name: str, control: ControlStore) -> None:
        self.name, self.control = name, control
        catalog.create_namespace(name)

    def feed(self, *tables: str) -> Feed:
        return feed_of(self.name, "dbo.all", *tables)

    def extracts(self, *tables: str) -> None:
        feed, position = self.feed(*tables), self.control.windows.position(self.name)
        ctx: Any = SimpleNamespace(
            feed=feed,
            whole=feed,
            control=self.control,
            lake=feed.lake,
            released=position or {},
            window=hour(9),
        )
        joined.note(ctx)

    def publishes(self, number: int, *tables: str, to: int) -> None:
        """Publishes a release of the window of that hour, with these tables."""
        snapshots = {self.feed(PARTS).names[table].changes: number for table in tables}
        contracts = [CONTRACT] if tables else []
        position = {"t": {"0": to}}
        release(self.control, self.name, contracts, hour(number), snapshots, position=position)

    def passes_over(self, number: int, offsets: Sequence[int], sent_at: datetime | None = None) -> None:
        """Lets the window of that hour read these messages of the table, which the feed does not list."""
        of, lake = hour(number), self.feed().lake
        said = {"window_id": of.id, "disposition": change.CONTROL}
        said |= {"reason": change.TABLE_NOT_IN_FEED, "detail": PARTS}
        rows = [{**said, "source_position": record(offset)} for offset in offsets]
        replace(lake.dispositions, change.DISPOSITION_COLUMNS, rows)
        sent = {"window_id": of.id, "topic": "t", "partition": 0, "timestamp": sent_at or of.start}
        replace(lake.raw, change.RAW_MESSAGE_COLUMNS, [{**sent, "offset": offset} for offset in offsets])

    def lacks(self) -> list[FeedTableRow]:
        return self.control.feed_tables.lacking(self.name)


def replace(table: str, columns: Sequence[tuple[str, str]], rows: list[dict[str, Any]]) -> None:
    replace_rows(table, pa.Table.from_pylist(rows, table_schema(columns)))


def test_a_table_that_was_left_out_before_it_had_a_record(control: ControlStore) -> None:
    """No release has the table, neither those before it was left out nor those since."""
    feed = Joining("joined_quiet", control)
    feed.extracts(PARTS)
    feed.publishes(0, to=1)
    feed.extracts()
    assert PARTS not in control.feed_tables.of_feed(feed.name)
    feed.publishes(1, to=3)
    feed.passes_over(1, [1, 2])
    feed.extracts(PARTS)
    (row,) = feed.lacks()
    assert (row.lacking, row.since, row.until) == (2, hour(0).end, hour(1).end)


def test_after_a_rollback_it_lacks_what_was_passed_over_before_that_release(control: ControlStore) -> None:
    """The dispositions are those of the restored release, and the next run reads what follows it."""
    feed = Joining("joined_rollback", control)
    feed.extracts(PARTS)
    feed.publishes(0, PARTS, to=1)
    feed.extracts()
    feed.publishes(1, to=3)
    feed.passes_over(1, [1, 2])
    feed.extracts(PARTS)
    feed.publishes(2, PARTS, to=4)
    assert feed.lacks()
    tables = {feed.feed(PARTS).names[PARTS].changes: 0}
    control.rollbacks.commit(feed.name, 1, tables, ASKED._replace(keep_position=True))
    feed.extracts(PARTS)
    assert feed.lacks(), "it is not read again"
    control.rollbacks.commit(feed.name, 1, tables, ASKED)
    feed.passes_over(1, [])
    feed.extracts(PARTS)
    assert not feed.lacks()
    control.rollbacks.commit(feed.name, 2, {}, ASKED)
    feed.passes_over(1, [1, 2])
    feed.extracts(PARTS)
    (row,) = feed.lacks()
    assert row.lacking == 2


def test_its_time_begins_with_the_earliest_message(control: ControlStore) -> None:
    """A message that arrived late has a time that an earlier window had already read."""
    feed, early = Joining("joined_late", control), hour(0).start + timedelta(minutes=1)
    feed.publishes(0, to=1)
    feed.publishes(1, to=2)
    feed.passes_over(1, [1], early)
    feed.extracts(PARTS)
    (row,) = feed.lacks()
    assert (row.since, row.until) == (early, hour(1).end)


def test_what_was_quarantined_is_there_or_was_passed_over_since(control: ControlStore) -> None:
    """A run without the table took the first record out of quarantine; the second is still in quarantine."""
    feed = Joining("joined_quarantined", control)
    feed.publishes(0, to=2)
    feed.publishes(1, to=2)
    feed.passes_over(1, [0, 1])
    lake = feed.feed().lake
    said = {"window_id": hour(0).id, "table": PARTS, "reason": "unparseable_json"}
    first = {**said, "disposition": change.QUARANTINED}
    of_first = [{**first, "source_position": record(offset)} for offset in (0, 1)]
    append_rows(lake.dispositions, change.DISPOSITION_COLUMNS, of_first)
    replace(lake.quarantine, change.QUARANTINE_COLUMNS, [{**said, "source_position": record(1)}])
    feed.extracts(PARTS)
    (row,) = feed.lacks()
    assert row.lacking == 1


def test_a_record_that_two_windows_have_passed_over_counts_once(control: ControlStore) -> None:
    feed = Joining("joined_twice", control)
    feed.publishes(0, to=2)
    feed.publishes(1, to=2)
    feed.passes_over(0, [0, 1])
    dispositions = feed.feed().lake.dispositions
    of_second = [{**row, "window_id": hour(1).id} for row in stored_rows(dispositions)]
    append_rows(dispositions, change.DISPOSITION_COLUMNS, of_second)
    feed.extracts(PARTS)
    (row,) = feed.lacks()
    assert (row.lacking, row.until) == (2, hour(1).end)
