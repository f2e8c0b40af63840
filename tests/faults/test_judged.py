"""Only what was judged is published, whatever happens between the stages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from changeledger.cli import quarantine
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore, base
from changeledger.control.windows import Windows
from changeledger.lake import iceberg, publishing, refs
from changeledger.lake.refs import release_tag
from changeledger.model.errors import LeaseLost, ReleaseStuck, StageOrderError
from changeledger.model.window import Window
from changeledger.stages import audit, extract, normalize, publish, reconcile
from changeledger.stages.common import branches
from changeledger.stages.maintenance.releasing import complete_by_hand
from changeledger.state.quarantine import Chosen
from sourcelab import sqlserver_cdc
from sourcelab.services import Postgres
from sourcelab.tables import CUSTOMERS
from tests.faults.matrix.lab import State
from tests.integration.line import current_rows, lake_name, run, window, without_spark
from tests.lake_states import lake_of
from tests.one_release import LOG, OneRelease, feed_of
from tests.stored_rows import stored_rows

pytestmark = pytest.mark.integration

BUILD = (extract, normalize, reconcile)
KINDS = ("", "_history", "_changes")
# Adds a row that nobody judged.
FOREIGN = "INSERT INTO {} SELECT * FROM {} LIMIT 1"


class Built(NamedTuple):
    """The state in which `over`, the window after the first release, is judged. The source has all of it."""

    source: Postgres
    judged: State
    over: Window


@pytest.fixture(scope="module")
def built(
    spark: SparkSession,
    one_release: OneRelease,
    new_database: Callable[[], Postgres],
    tmp_path_factory: pytest.TempPathFactory,
) -> Built:
    source, judged = new_database(), one_release.state.copy(tmp_path_factory.mktemp("judged"))
    sqlserver_cdc.load(source.url, LOG)
    with pytest.MonkeyPatch.context() as patch:
        session, over = lake_of(spark, judged, one_release.files, patch), window()
        run(session, feed_of(source, patch), over, (*BUILD, audit))
    return Built(source, judged, over)


@pytest.fixture
def feed(built: Built, monkeypatch: pytest.MonkeyPatch) -> Feed:
    return feed_of(built.source, monkeypatch)


@pytest.fixture
def new(
    spark: SparkSession, one_release: OneRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SparkSession:
    """A session on a lake where a first window is judged, and nothing is published."""
    return lake_of(spark, one_release.judged.copy(tmp_path), one_release.files, monkeypatch)


@pytest.fixture
def released(
    spark: SparkSession, one_release: OneRelease, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SparkSession:
    """A session on a lake with one published window."""
    return one_release.copy(spark, tmp_path, monkeypatch)


@pytest.fixture
def judged(
    spark: SparkSession,
    one_release: OneRelease,
    built: Built,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> SparkSession:
    """A session on a lake where a second window is built and judged."""
    return lake_of(spark, built.judged.copy(tmp_path), one_release.files, monkeypatch)


@pytest.fixture
def over(built: Built) -> Window:
    """The judged window."""
    return built.over


def control() -> ControlStore:
    return ControlStore(Settings().control_url)


def published_whole(feed: Feed) -> None:
    """Asserts that the rows are right, and main, tag and release row name one snapshot of each table."""
    assert current_rows(feed, CUSTOMERS) == LOG.final_rows(CUSTOMERS)
    ids = [row["change_id"] for row in stored_rows(lake_name(feed, "dbo.customers", "_changes"))]
    assert len(set(ids)) == len(ids)
    release = control().releases.latest(feed.feed)
    assert release is not None
    assert release.completed
    assert refs.heads(release.tables, "main") == release.tables
    assert refs.heads(release.tables, release_tag(release.id)) == release.tables
    assert refs.names(release.tables, refs.BRANCH) == {}, "nothing of the run is left"
    pointer = stored_rows(feed.lake.releases)
    assert max(row["release"] for row in pointer) == release.id
    assert len(pointer) == len({row["release"] for row in pointer})


@pytest.mark.usefixtures("new")
def test_a_first_release_needs_no_spark(feed: Feed, one_release: OneRelease) -> None:
    """The first publish creates the feed's table of releases."""
    assert publish.run(without_spark, feed, one_release.over) is None, "something was left to do"
    release = control().releases.latest(feed.feed)
    assert release is not None
    assert release.completed


def test_killed_before_the_commit_point_of_a_first_release(
    new: SparkSession, feed: Feed, one_release: OneRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The feed's table of releases exists by then, without a release, and the next window's run continues."""

    def dies(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(type(control().releases), "commit", dies)
        with pytest.raises(Killed):
            publish.run(new, feed, one_release.over)
    assert stored_rows(feed.lake.releases) == []
    control().leases.release(feed.feed, one_release.over.holder)
    run(new, feed, window())
    assert current_rows(feed, CUSTOMERS) == LOG.final_rows(CUSTOMERS)
    assert control().releases.latest(feed.feed) is not None


def test_killed_at_the_commit_point_of_a_first_release(
    new: SparkSession, feed: Feed, one_release: OneRelease
) -> None:
    """The next window's run completes what the release promised."""
    first = one_release.over
    stored, judged = (
        control().windows.row(feed.feed, first.id),
        control().windows.stage(feed.feed, first, "audit"),
    )
    assert stored is not None
    assert judged is not None
    control().releases.commit(feed.feed, first, judged.tables, {}, stored.to_position)
    control().leases.release(feed.feed, first.holder)
    assert not current_rows(feed, CUSTOMERS)
    run(new, feed, window())
    assert current_rows(feed, CUSTOMERS) == LOG.final_rows(CUSTOMERS)
    assert not control().releases.incomplete(feed.feed)


def test_a_stage_run_again_needs_another_verdict(judged: SparkSession, feed: Feed, over: Window) -> None:
    normalize.run(judged, feed, over)
    with pytest.raises(StageOrderError):
        publish.run(judged, feed, over)
    run(judged, feed, over, (reconcile, audit, publish))
    published_whole(feed)


def test_what_is_written_on_the_branch_after_the_verdict(
    judged: SparkSession, feed: Feed, over: Window
) -> None:
    verdict = control().windows.stage(feed.feed, over, "audit")
    assert verdict is not None
    name = lake_name(feed, "dbo.customers", "_changes")
    judged.sql(FOREIGN.format(iceberg.on_branch(name, verdict.branch), name))
    publish.run(judged, feed, over)
    published_whole(feed)


def test_main_written_before_the_commit(judged: SparkSession, feed: Feed, over: Window) -> None:
    name = lake_name(feed, "dbo.customers")
    before = control().releases.latest(feed.feed)
    judged.sql(f"DELETE FROM {name} WHERE _change_id = (SELECT max(_change_id) FROM {name})")
    with pytest.raises(ReleaseStuck, match="nothing was released"):
        publish.run(judged, feed, over)
    after = control().releases.latest(feed.feed)
    assert before is not None
    assert after is not None
    assert after.id == before.id
    assert not control().releases.incomplete(feed.feed)
    judged.sql(f"CALL lake.system.rollback_to_snapshot('{name}', {before.tables[name]})")
    run(judged, feed, over, (normalize, reconcile, audit, publish))
    published_whole(feed)


def test_main_written_behind_the_commit(
    judged: SparkSession, feed: Feed, over: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every stage names the release and the remedy, and the remedy publishes what was audited."""
    name = lake_name(feed, "dbo.customers")
    with monkeypatch.context() as patch:
        killed_in(patch, refs, "set_tag")
        with pytest.raises(Killed):
            publish.run(judged, feed, over)
    control().leases.release(feed.feed, over.holder)
    judged.sql(f"DELETE FROM {name}")
    (stuck,) = control().releases.incomplete(feed.feed)
    for stage in (extract, normalize):
        with pytest.raises(ReleaseStuck, match=f"release complete {feed.feed} --force"):
            stage.run(judged, feed, window())
    with pytest.raises(ReleaseStuck):
        complete_by_hand(judged, feed, force=False)
    assert complete_by_hand(judged, feed, force=True) == [stuck.id]
    published_whole(feed)
    assert judged.sql(f"SELECT * FROM {name} VERSION AS OF 'displaced_{stuck.id}'").count() == 0
    assert complete_by_hand(judged, feed, force=False) == []


@pytest.mark.parametrize("at", ["set_tag", "forward"])
def test_killed_inside_publish(
    judged: SparkSession, feed: Feed, over: Window, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """A later stage, here the next window's extract, completes the release before it begins."""
    with monkeypatch.context() as patch:
        killed_in(patch, refs, at)
        with pytest.raises(Killed):
            publish.run(judged, feed, over)
    (committed,) = control().releases.incomplete(feed.feed)
    if at == "forward":
        tags = refs.heads(committed.tables, release_tag(committed.id))
        assert tags == committed.tables, "all tags stand before the first main moves"
        assert committed.id in {row["release"] for row in stored_rows(feed.lake.releases)}
    control().leases.release(feed.feed, over.holder)
    extract.run(judged, feed, window())
    published_whole(feed)


def test_another_try_publishes_at_once(
    judged: SparkSession, feed: Feed, over: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both tries find the pointer without the release, and both write it."""
    asked = Windows.row

    def beside(windows: Windows, *of: Any) -> Any:
        """Stands for a query between a try's look at the pointer and its write: the other one writes now."""
        for release in control().releases.incomplete(feed.feed):
            patch.setattr(Windows, "row", asked)
            publishing._point_to(control(), release)
        return asked(windows, *of)

    with monkeypatch.context() as patch:
        patch.setattr(Windows, "row", beside)
        publish.run(judged, feed, over)
    published_whole(feed)


def test_a_publish_that_wakes_behind_another_release(
    judged: SparkSession, feed: Feed, over: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The publish slept past its lease: another run has completed its release and published a later one."""
    lineages, name = refs.lineages, lake_name(feed, "dbo.customers")

    def slept(*of: Any) -> dict[str, set[int]]:
        if control().releases.incomplete(feed.feed):
            control().leases.release(feed.feed, over.holder)
            with monkeypatch.context() as patch:
                patch.setattr(refs, "lineages", lineages)
                patch.setattr(base, "_PROCESS", "the next run")
                extract.run(judged, feed, window())
            # Stands for what the next run publishes.
            judged.sql(FOREIGN.format(name, name))
        return lineages(*of)

    with monkeypatch.context() as patch:
        patch.setattr(refs, "lineages", slept)
        with pytest.raises(LeaseLost):
            publish.run(judged, feed, over)
    assert not control().releases.incomplete(feed.feed)


def test_records_asked_for_again_between_verdict_and_publish(
    judged: SparkSession, feed: Feed, over: Window
) -> None:
    """The list of records to replay belongs to no release, so it does not move main during a run."""
    control().leases.release(feed.feed, over.holder)
    quarantine.replay(judged, feed, Chosen(), lambda _: None)
    publish.run(judged, feed, over)
    published_whole(feed)


def test_a_run_that_was_left_behind_disturbs_nothing(
    released: SparkSession, feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process wakes up beside its retry: it has its own branch, and its stage marks are refused."""
    over = window()
    run(released, feed, over, (extract, normalize))
    woken: list[BaseException] = []
    begin = branches.begin

    def sleeps(*arguments: Any) -> Any:
        """Stops reconcile of the first process in the middle; meanwhile the retry does everything."""
        monkeypatch.setattr(branches, "begin", begin)
        with monkeypatch.context() as patch:
            patch.setattr(base, "_PROCESS", "the retry")
            run(released, feed, over, (normalize, reconcile, audit))
        return begin(*arguments)

    monkeypatch.setattr(branches, "begin", sleeps)
    try:
        reconcile.run(released, feed, over)
    except LeaseLost as error:
        woken.append(error)
    assert woken, "the process that was left behind has found it out"
    monkeypatch.setattr(base, "_PROCESS", "the retry")
    publish.run(released, feed, over)
    published_whole(feed)


class Killed(BaseException):
    """Not an error of the program, so that no code of it can handle this."""


def killed_in(patch: pytest.MonkeyPatch, module: Any, function: str) -> None:
    """Ends the process at the second call, so that one table is done and the others are not."""
    calls = 0
    true = getattr(module, function)

    def dies(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise Killed
        return true(*arguments, **named)

    patch.setattr(module, function, dies)
