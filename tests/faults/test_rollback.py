"""A release is taken back: main, tags, positions and windows, whatever ends the process meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import Asked, ControlStore
from changeledger.control.releases import Releases
from changeledger.lake import iceberg, publishing, refs
from changeledger.lake.refs import release_tag
from changeledger.model.errors import ConfigError, LeaseHeld, ReleaseStuck, StageOrderError
from changeledger.model.window import Request, Window
from changeledger.stages import extract, maintain, normalize
from changeledger.stages.maintenance.releasing import complete_by_hand
from changeledger.stages.maintenance.rolling_back import roll_back
from sourcelab import sqlserver_cdc
from sourcelab.postgres import plain_url
from sourcelab.services import Postgres
from sourcelab.tables import CUSTOMERS
from tests.faults.matrix.lab import State
from tests.faults.test_judged import Killed, killed_in
from tests.integration.line import current_rows, lake_name, run, window
from tests.lake_states import lake_of
from tests.ledger_windows import OF_THE_RUN
from tests.one_release import LOG, OneRelease, feed_of
from tests.stored_rows import stored_rows

pytestmark = pytest.mark.integration

TWO_TABLES = [{"table": "dbo.customers"}, {"table": "dbo.parts"}]
TABLE, KINDS = "dbo.customers", ("", "_history", "_changes")
ASKED = Asked("the source was restored", "ann")
Content = dict[str, list[str]]


class Built(NamedTuple):
    """Three windows are published, listed in `windows`. The third one added a table."""

    source: Postgres
    files: Path
    state: State
    windows: list[Window]


@pytest.fixture(scope="module")
def built(
    spark: SparkSession,
    one_release: OneRelease,
    new_database: Callable[[], Postgres],
    tmp_path_factory: pytest.TempPathFactory,
) -> Built:
    source, windows, middle = new_database(), [one_release.over], 18
    state = one_release.state.copy(tmp_path_factory.mktemp("rollback"))
    sqlserver_cdc.load(source.url, LOG, to_tx=middle)
    with pytest.MonkeyPatch.context() as patch:
        session = lake_of(spark, state, one_release.files, patch)
        windows.append(following())
        run(session, feed_of(source, patch), windows[-1])
        sqlserver_cdc.append(source.url, LOG, middle, len(LOG.transactions))
        windows.append(following())
        run(session, feed_of(source, patch, tables=TWO_TABLES), windows[-1])
    return Built(source, one_release.files, state, windows)


@pytest.fixture
def feed(built: Built, monkeypatch: pytest.MonkeyPatch) -> Feed:
    return feed_of(built.source, monkeypatch, tables=TWO_TABLES)


@pytest.fixture
def lake(spark: SparkSession, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """A session on a lake with three published windows."""
    return lake_of(spark, built.state.copy(tmp_path), built.files, monkeypatch)


def following() -> Window:
    """Returns a window after all that the source has, which it reads only because of the position."""
    end = datetime.now(UTC)
    return window(end, end - timedelta(seconds=1))


def control() -> ControlStore:
    return ControlStore(Settings().control_url)


def content(feed: Feed, ref: str = refs.MAIN) -> Content:
    """Returns the rows of a table's lake tables, without columns that say which run wrote a row."""

    def of(name: str) -> list[str]:
        cells = stored_rows(name, ref)
        return sorted(repr(sorted((k, v) for k, v in row.items() if k not in OF_THE_RUN)) for row in cells)

    return {kind: of(lake_name(feed, TABLE, kind)) for kind in KINDS}


def is_back(feed: Feed, target: int) -> None:
    """Asserts that main, tag and pointer are those of a completed rollback."""
    release = control().releases.latest(feed.feed)
    assert release is not None
    assert release.completed
    assert (release.rolled_back_to, release.reason, release.by) == (target, ASKED.reason, ASKED.by)
    to = next(row for row in control().releases.of_feed(feed.feed) if row.id == target)
    assert to.tables.items() <= release.tables.items()
    assert refs.heads(release.tables, refs.MAIN) == release.tables
    assert refs.heads(release.tables, release_tag(release.id)) == release.tables
    pointer = [row["release"] for row in stored_rows(feed.lake.releases)]
    assert sorted(pointer) == list(range(1, release.id + 1))


@pytest.mark.long
def test_taken_back_and_read_again(lake: SparkSession, feed: Feed, built: Built) -> None:
    before, second = content(feed), content(feed, "release_2")
    roll_back(lambda: lake, feed, 2, ASKED)
    is_back(feed, 2)
    assert content(feed) == second != before
    assert refs.names(control().releases.of_feed(feed.feed)[3].tables, refs.BRANCH) == {}
    assert content(feed, "release_3") == before, "a reader by tag sees no change"
    assert stored_rows(lake_name(feed, "dbo.parts")) == [], "a table that came later has no rows"
    assert control().windows.position(feed.feed) == control().releases.of_feed(feed.feed)[1].positions
    assert control().windows.reached(feed.feed) == built.windows[1].end
    run(lake, feed, following())
    assert content(feed) == before
    assert current_rows(feed, CUSTOMERS) == LOG.final_rows(CUSTOMERS)
    assert len(stored_rows(lake_name(feed, "dbo.parts"))) > 0


@pytest.mark.long
def test_a_table_that_the_feed_had_left_out(
    lake: SparkSession, feed: Feed, built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fourth release lacks the table, the fifth has it again: readers of the fourth saw it unchanged."""
    fewer, parts = feed_of(built.source, monkeypatch), lake_name(feed, "dbo.parts")
    before = stored_rows(parts)
    assert before
    for run_of in (fewer, feed):
        everything = window(built.windows[2].end)
        again = Request(mode="window", tables=(TABLE,), run=f"of {len(run_of.tables)} tables")
        run(lake, run_of, everything.model_copy(update={"request": again}))
    assert [parts in row.tables for row in control().releases.of_feed(feed.feed)[2:]] == [True, False, True]
    roll_back(lambda: lake, feed, 4, ASKED)
    is_back(feed, 4)
    assert stored_rows(parts) == before
    roll_back(lambda: lake, feed, 2, ASKED)
    assert stored_rows(parts) == [], "it came after that release"
    roll_back(lambda: lake, feed, 4, ASKED)
    assert stored_rows(parts) == before
    refs.drop(parts, ["release_3"])
    roll_back(lambda: lake, feed, 2, ASKED)
    with pytest.raises(ConfigError, match=r"release 3 can no longer be read.*customers\.dbo_parts"):
        roll_back(lambda: lake, feed, 4, ASKED)


@pytest.mark.long
def test_the_window_itself_is_run_again(lake: SparkSession, feed: Feed, built: Built) -> None:
    before, third = content(feed), built.windows[2]
    roll_back(lambda: lake, feed, 1, ASKED)
    with pytest.raises(StageOrderError, match="not been extracted since it was taken back"):
        normalize.run(lake, feed, third)
    run(lake, feed, third)
    assert content(feed) == before, "it reads what the second window had, too"
    assert [row.window_id for row in control().releases.of_feed(feed.feed)][-1] == third.id


@pytest.mark.long
def test_the_window_of_a_database_that_was_restored(
    lake: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run again, the window finds nothing, and raw drops the rows of the database before the restore."""
    feed = feed_of(postgres, monkeypatch).model_copy(update={"feed": "restored"})
    sqlserver_cdc.load(postgres.url, LOG, to_tx=8)
    run(lake, feed, following())
    first, second = content(feed), following()
    sqlserver_cdc.append(postgres.url, LOG, 8, 16)
    run(lake, feed, second)
    since = LOG.transactions[8].begin_lsn
    with psycopg.connect(plain_url(postgres.url)) as session:
        for name, column in (('"dbo_customers_CT"', '"__$start_lsn"'), ("lsn_time_mapping", "start_lsn")):
            session.execute(f"DELETE FROM cdc.{name} WHERE {column} >= %s", (since,))  # type: ignore[arg-type]
    roll_back(lambda: lake, feed, 1, ASKED)
    assert extract.run(lake, feed, second) is False
    assert content(feed) == first


def test_keeping_the_position(lake: SparkSession, feed: Feed) -> None:
    second, position = content(feed, "release_2"), control().windows.position(feed.feed)
    roll_back(lambda: lake, feed, 2, ASKED._replace(keep_position=True))
    is_back(feed, 2)
    assert control().windows.position(feed.feed) == position
    assert extract.run(lake, feed, following()) is False, "nothing is read again"
    assert content(feed) == second


def test_forward_again(lake: SparkSession, feed: Feed) -> None:
    before, position = content(feed), control().windows.position(feed.feed)
    roll_back(lambda: lake, feed, 1, ASKED)
    roll_back(lambda: lake, feed, 3, ASKED)
    is_back(feed, 3)
    assert content(feed) == before
    assert control().windows.position(feed.feed) == position
    assert extract.run(lake, feed, following()) is False


@pytest.mark.long
def test_a_window_that_waits_is_read_anew(lake: SparkSession, feed: Feed) -> None:
    """The window was to begin where the third release ended, but must not skip that release's changes."""
    before, over = content(feed), following()
    extract.run(lake, feed, over)
    roll_back(lambda: lake, feed, 2, ASKED)
    run(lake, feed, over)
    assert content(feed) == before


def test_what_cannot_be_gone_back_to(lake: SparkSession, feed: Feed) -> None:
    names = control().releases.of_feed(feed.feed)[0].tables
    with pytest.raises(ConfigError, match="no release 7"):
        roll_back(lambda: lake, feed, 7, ASKED)
    with pytest.raises(ConfigError, match="release 3 is the newest"):
        roll_back(lambda: lake, feed, 3, ASKED)
    refs.drop(next(iter(names)), ["release_1"])
    with pytest.raises(ConfigError, match="can no longer be read"):
        roll_back(lambda: lake, feed, 1, ASKED)
    assert len(control().releases.of_feed(feed.feed)) == 3
    control().leases.acquire(feed.feed, "a run", 60)
    with pytest.raises(LeaseHeld):
        roll_back(lambda: lake, feed, 2, ASKED)


def test_main_that_somebody_has_written(lake: SparkSession, feed: Feed) -> None:
    name = lake_name(feed, TABLE)
    lake.sql(f"DELETE FROM {name} WHERE _change_id = (SELECT max(_change_id) FROM {name})")
    with pytest.raises(ReleaseStuck, match="nothing was taken back"):
        roll_back(lambda: lake, feed, 2, ASKED)
    assert len(control().releases.of_feed(feed.feed)) == 3


@pytest.mark.long
def test_after_maintenance(lake: SparkSession, feed: Feed) -> None:
    """Maintenance has compacted main, which is no longer the snapshot that the release names."""
    second = content(feed, "release_2")
    maintain.run(lake, feed, "maintain")
    roll_back(lambda: lake, feed, 2, ASKED)
    maintain.run(lake, feed, "maintain")
    assert content(feed) == second == content(feed, "release_2")


KILLED: dict[str, tuple[Any, str]] = {
    "the new tables are empty": (iceberg, "replace"),
    "one tag": (refs, "set_tag"),
    "the pointer": (publishing, "_point_to"),
    "one main": (refs, "move_back"),
    "all mains": (Releases, "complete"),
    "a branch is left": (refs, "drop"),
}


# One function completes what was committed, whoever calls it: all three callers are tried at one place, and
# one or two at each other. What was not committed is as if it had not begun. What follows is the same for
# all, so a run to its end is only tested where mains differ, and where all is done but the clean-up.
GOES_ON = [
    ("the new tables are empty", "the next run"),
    pytest.param("the new tables are empty", "rollback", marks=pytest.mark.long),
    pytest.param("one tag", "the next run", marks=pytest.mark.long),
    pytest.param("the pointer", "rollback", marks=pytest.mark.long),
    pytest.param("one main", "the next run", marks=pytest.mark.long),
    pytest.param("one main", "release complete", marks=pytest.mark.long),
    pytest.param("one main", "rollback", marks=pytest.mark.long),
    pytest.param("all mains", "release complete", marks=pytest.mark.long),
    pytest.param("a branch is left", "the next run", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("at", "by"), GOES_ON)
def test_killed(
    lake: SparkSession, feed: Feed, built: Built, monkeypatch: pytest.MonkeyPatch, at: str, by: str
) -> None:
    before, over = content(feed), following()
    with monkeypatch.context() as patch:
        killed_at(patch, *KILLED[at])
        with pytest.raises(Killed):
            roll_back(lambda: lake, feed, 2, ASKED)
    held = control().leases.of_feed(feed.feed)
    assert held is not None
    control().leases.release(feed.feed, held.holder)
    goes_on = {
        "the next run": partial(extract.run, lake, feed, over),
        "release complete": partial(complete_by_hand, lake, feed, force=False),
        "rollback": partial(roll_back, lambda: lake, feed, 2, ASKED),
    }
    goes_on[by]()
    committed = len(control().releases.of_feed(feed.feed)) > 3
    assert committed == (at != "the new tables are empty" or by == "rollback")
    if committed:
        is_back(feed, 2)
    if by == "the next run" and at in {"one main", "a branch is left"}:
        run(lake, feed, over)
        assert content(feed) == before
    else:
        # From here on it is as if nobody had been killed.
        at_release = control().releases.of_feed(feed.feed)[1 if committed else 2]
        assert content(feed) == content(feed, release_tag(at_release.id))
        assert control().windows.position(feed.feed) == at_release.positions


def killed_at(patch: pytest.MonkeyPatch, module: Any, function: str) -> None:
    """Kills at the second table, so that only one is done; a function that is called once never runs."""
    if function in {"set_tag", "move_back", "replace", "drop"}:
        killed_in(patch, module, function)
        return

    def dies(*_: Any, **__: Any) -> None:
        raise Killed

    patch.setattr(module, function, dies)
