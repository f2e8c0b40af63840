"""`make up` word for word as in the README: shell, schedule, backfills, lost scheduler, form, all pages.

All tests share one installation and continue from each other, because what Airflow runs costs most.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from tests.integration import browser
from tests.integration.airflow_pages import Pages
from tests.integration.browser import Browser, until
from tests.integration.installation import FEED, HOUR, TABLE, Up, installed_in, published
from tests.integration.newcomer import PATIENCE, backfills, blocks, documented_backfills, hours_of_backfills

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(3600)]

ADDED = "my_feed"
MISTAKE = 'shedule: "0 * * * *"\n'
# A setting that SQL Server's masks contradict, so that updates are quarantined.
WRONG, RIGHT = "mask_order: little\n", "mask_order: auto\n"
ERRORS = "SELECT stacktrace FROM import_error"
SUCCEEDED = "SELECT run_id FROM dag_run WHERE dag_id = %s AND run_type = %s AND state = 'success' ORDER BY id"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """The installation after its first run."""
    with installed_in(tmp_path_factory.mktemp("up")) as started:
        started.shell.await_rows(SUCCEEDED, FEED, "scheduled")
        yield started


@pytest.fixture(scope="module")
def proof(installed: Up) -> str:
    """The run of the first proof, which the first release triggers. Further ones are paused."""
    at, run = installed.shell, ("verify_shop", "asset_triggered")
    at.await_rows(SUCCEEDED, *run)
    at.asked("UPDATE dag SET is_paused = true WHERE dag_id = 'verify_shop' RETURNING 1")
    return str(at.asked(SUCCEEDED, *run)[0][0])


@pytest.fixture(scope="module")
def disturbed(installed: Up, proof: str) -> Up:
    """The installation with a mistaken new feed, and a forward backfill during which the scheduler died."""
    at, (added,) = installed.shell, blocks("Add a feed")
    at.run(added)
    with (at.feeds / f"{ADDED}.yaml").open("a", encoding="utf-8") as file:
        file.write(f"{WRONG}quarantine_limit: 1\n{MISTAKE}")
    at.up(f"{installed.dates(installed.hours[1], installed.hours[3])}\n{backfills()[0]}")
    at.await_rows(
        "SELECT 1 FROM task_instance t JOIN dag_run r USING (dag_id, run_id) "
        "WHERE r.run_type = 'backfill' AND task_id = 'normalize' AND t.state = 'running'"
    )
    installed.lose("airflow scheduler")
    return installed


@pytest.fixture(scope="module")
def mended(disturbed: Up) -> Up:
    """The installation after the added feed is corrected."""
    at = disturbed.shell
    at.await_rows(ERRORS)
    change(at.feeds / f"{ADDED}.yaml", MISTAKE, "")
    return disturbed


@pytest.fixture(scope="module")
def logged_in(installed: Up, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    if browser.missing():
        pytest.skip(str(browser.missing()))
    with Browser(tmp_path_factory.mktemp("browser") / "chromedriver.log") as page:
        yield Pages(page, installed.shell)


@pytest.fixture
def pages(logged_in: Pages, tmp_path: Path) -> Iterator[Pages]:
    logged_in.browser.leave_frame()
    yield logged_in
    # Otherwise the page keeps redrawing.
    logged_in.browser.go("about:blank")


def test_the_start(installed: Up) -> None:
    at, (starts, asks) = installed.shell, blocks("Quick start")
    assert "\nmake up " in starts
    answer = at.run(asks)
    assert FEED in answer
    assert "5 rows" in answer
    (query,) = re.findall(r"changeledger query \".*?\"", installed.welcome)
    assert query in asks, "what `make up` prints is what the README has"
    (query,) = blocks("What you get", "sql")
    assert at.up(f'changeledger query --json "{query}"').splitlines(), "the README's example gives rows"
    connections = {name for (name,) in at.asked("SELECT conn_id FROM connection")}
    assert connections == {"shop_sqlserver", "shop_qlik_target", "shop_kafka", "changeledger_spark"}
    hours = at.asked("SELECT logical_date FROM dag_run WHERE dag_id = %s", FEED)
    assert min(hours) >= (installed.hours[-1],), "the last whole hour, for nobody need wait for the next one"
    lost = "SELECT task_id FROM task_instance WHERE try_number > 1 AND dag_id = %s"
    assert at.asked(lost, FEED) == [], "none was lost"


def test_pages_of_a_mistake_and_of_a_proof(disturbed: Up, proof: str, pages: Pages) -> None:
    disturbed.shell.await_rows(ERRORS)
    pages.go("dags")
    # The red number beside the number of DAGs.
    pages.browser.click("//button[normalize-space(.) = '1']", PATIENCE)
    pages.await_text("settings_errors.py")
    ((shown,),) = disturbed.shell.asked(ERRORS)
    assert "did you mean `schedule`?" in shown
    pages.follow("verify_shop", proof, "verify", "Report")
    pages.await_text(f"{FEED} is proven")


def test_backfills_both_ways(mended: Up) -> None:
    at, (first, second, last) = mended.shell, mended.hours[1:]
    assert backfills() == documented_backfills()
    begun = datetime.now(UTC)
    dates = at.run(f"{hours_of_backfills()}\necho $since $until").split()
    assert dates in (whole_hours(begun), whole_hours(datetime.now(UTC)))
    at.await_runs(FEED)
    lost = "SELECT 1 FROM task_instance WHERE dag_id = %s AND task_id = 'normalize' AND try_number > 1"
    assert at.asked(lost, FEED), "the scheduler died while it ran"
    assert [window.hour for window in at.extracted(FEED, mended.hours)] == [last, first, second]
    rows = published(FEED)
    assert len(rows["current"]) == len(mended.log.final_rows(mended.log.table(TABLE)))
    # What is done stays done: cleared from its middle, and run again from its beginning.
    cleared = datetime.now(UTC)
    ((run,),) = at.asked("SELECT run_id FROM dag_run WHERE dag_id = %s AND logical_date = %s", FEED, first)
    onwards = {"task_ids": ["normalize"], "include_downstream": True, "only_failed": False}
    at.api("POST", f"dags/{FEED}/clearTaskInstances", {**onwards, "dag_run_id": run, "dry_run": False})
    # The hour brings nothing unpublished, so the tasks after normalize are skipped.
    again = "SELECT 1 FROM task_instance WHERE task_id = 'normalize' AND state IN ('success', 'skipped')"
    at.await_rows(f"{again} AND start_date > %s AND dag_id = %s", cleared, FEED)
    at.await_runs(FEED)
    at.await_none("SELECT 1 FROM backfill WHERE completed_at IS NULL")
    # The hours before the last: what later hours have brought remains.
    before = datetime.now(UTC)
    at.up(f"{mended.dates(first, second)}\n{backfills()[1]}")
    at.await_runs(FEED)
    windows = at.extracted(FEED, mended.hours)
    assert [window.hour for window in windows] == [last, second, first]
    assert [window.begun > before for window in windows] == [False, True, True], "each of them again"
    assert published(FEED) == rows


def test_the_form(mended: Up, pages: Pages) -> None:
    pages.await_end(FEED, pages.trigger(FEED))
    pages.open_form(FEED)
    pages.choose("Mode", "window: from start to end")
    run = pages.submit(FEED)
    pages.await_end(FEED, run, "failed")
    pages.go(f"dags/{FEED}/runs/{run}/tasks/extract")
    pages.await_text("the mode `window` needs both `start` and `end`")
    # An hour in which nothing changed costs least.
    quiet = mended.hours[2]
    pages.open_form(FEED)
    pages.choose("Mode", "window: from start to end")
    pages.pick("Start", quiet)
    pages.pick("End", quiet + HOUR)
    pages.choose("Tables", TABLE)
    run = pages.submit(FEED)
    ((asked, user),) = mended.shell.asked(
        "SELECT conf, triggering_user_name FROM dag_run WHERE dag_id = %s AND run_id = %s", FEED, run
    )
    assert user == pages.user
    assert (asked["mode"], asked["tables"]) == ("window", [TABLE])
    times = [datetime.fromisoformat(asked[name]) for name in ("start", "end")]
    assert times == [quiet, quiet + HOUR]
    pages.await_end(FEED, run)
    pages.go(f"dags/{FEED}/runs/{run}")
    pages.await_text("Success")


def test_pages_of_what_cannot_be_read(mended: Up, pages: Pages) -> None:
    """Cause, record and remedy are shown; after the remedy the records are read again."""
    at, page = mended.shell, pages.browser
    at.await_rows(SUCCEEDED, ADDED, "scheduled")
    link = pages.follow(ADDED, at.asked(SUCCEEDED, ADDED, "scheduled")[0][0], "audit", "Data Docs")
    pages.await_text("no_quarantined_records", "What next", TABLE)
    assert re.fullmatch(rf"{at.airflow.url}/data-docs/{ADDED}/\w+Z_\w+Z/audit.html", link)
    assert httpx.get(link).status_code == 401, "nothing without a login"
    page.click(f"//summary[contains(., '{TABLE}')]")
    page.click('//p[contains(., "Great Expectations\' pages")]/a[.="rows"]')
    pages.await_text("Expectation Validation Result")
    assert TABLE in at.up(f"changeledger quarantine list {ADDED}")
    assert "quarantine" in at.up(f"changeledger status {ADDED}")
    replay(mended, pages)
    assert published(ADDED) == published(FEED), "in whatever order, and whatever was wrong meanwhile"
    # Triggered here, since the automatic comparison is paused.
    run = pages.trigger("compare_shop")
    pages.await_end("compare_shop", run)
    pages.follow("compare_shop", run, "compare", "Report")
    pages.await_text(f"{ADDED} agrees with the reference in all")


def replay(mended: Up, pages: Pages) -> None:
    at, page = mended.shell, pages.browser
    pages.go("")
    page.click("//a[@href='/plugin/ledger'] | //a[contains(., 'Ledger')]")
    page.enter_frame()
    page.find("//article[contains(., 'quarantined')]")
    page.click(f"//a[.='{ADDED}']")
    page.find("//*[contains(., 'could not be read lately')]/a[.='See the records']")
    page.click("//td/a[.='See the records'][contains(@href, 'mask_order_contradicted')]")
    page.find("//dt[.='value']/following::pre[contains(., '__$update_mask')]")
    change(at.feeds / f"{ADDED}.yaml", WRONG, RIGHT)
    page.click("//a[.='Overview']")
    page.click("//summary[.='Replay after a fix']")
    page.click("//button[.='Replay now']")
    asked = "SELECT run_id, conf, triggering_user_name FROM dag_run WHERE dag_id = %s AND run_type = 'manual'"
    until(lambda: at.asked(asked, ADDED), 60, lambda: page.text[:3000])
    ((run, conf, user),) = at.asked(asked, ADDED)
    assert (conf["mode"], user) == ("replay", pages.user)
    assert at.asked("SELECT owner FROM log WHERE event = 'changeledger_replay'") == [(user,)]
    pages.await_end(ADDED, run)
    pages.go(f"plugin/ledger/changeledger/feeds/{ADDED}")
    page.enter_frame()
    pages.await_text("Every record could be read")
    page.leave_frame()


def test_a_row_in_two_feeds_and_the_verdict(mended: Up, pages: Pages) -> None:
    """A row's life is shown beside the same row of the other feed; then, whether that feed may take over."""
    page = pages.browser
    table = mended.log.table(TABLE)
    key = next(iter(mended.log.final_rows(table)))
    pages.go(f"plugin/ledger/changeledger/feeds/{FEED}/rows")
    page.enter_frame()
    page.click(f"//select[@name='table']/option[.='{TABLE}']")
    page.click("//button[.='Choose']")
    page.find("//h2[.='Rows that changed last']/following::td/a[contains(@href, 'key.')]")
    for name, cell in zip(table.key, key, strict=True):
        page.type(f"//input[@name='key.{name}']", str(cell))
    page.click("//button[.='Show']")
    page.find(f"//th[.='{FEED}']/following-sibling::th[.='{ADDED}']")
    page.find("//h2[starts-with(., 'Its life')]")
    assert not page.all("//*[.='disagree']"), page.text[:3000]
    page.leave_frame()
    pages.go(f"plugin/ledger/changeledger/cutover/shop?old={FEED}&new={ADDED}&days=1&events=1")
    page.enter_frame()
    pages.await_text(f"May {ADDED} replace {FEED}?")
    page.find("//p[contains(@class, 'verdict-line')]/strong[contains('GO. NOT YET. NO-GO.', .)]")
    page.find(f"//tr[td[1][.='{TABLE}'] and td[5][.='0'] and td[7][.='0']]")
    page.leave_frame()


def test_a_disagreement_is_accepted(mended: Up, pages: Pages) -> None:
    """A disagreement about changes that the source lost is accepted, from the start page to the verdict."""
    page, at, comparisons = pages.browser, mended.shell, ControlStore(Settings().control_url).comparisons
    (row,) = (r for r in comparisons.last("shop", (FEED, ADDED))[FEED, ADDED] if r.table == TABLE)
    row.outcome, row.counts = "differ", {**row.counts, "missing": 2}
    comparisons.save(row)
    # The address without its last slash, as people type it.
    pages.go("plugin/ledger/changeledger")
    page.enter_frame()
    page.click("//nav//a[.='Agreement']")
    page.find(f"//h2[starts-with(., '{FEED} and {ADDED}')]")
    page.click("//summary[.='Accept what disagrees']")
    page.click(f"//select[@name='table']/option[.='{TABLE}']")
    page.type("//input[@name='reason']", "lost by a restore")
    page.click("//button[.='Accept']")
    page.find(f"//td[contains(., '{pages.user}: lost by a restore')]")
    assert comparisons.disagreements("shop") == []
    assert at.asked("SELECT owner FROM log WHERE event = 'changeledger_accept'") == [(pages.user,)]
    page.leave_frame()
    pages.go(f"plugin/ledger/changeledger/cutover/shop?old={FEED}&new={ADDED}&days=1&events=1")
    page.enter_frame()
    pages.await_text(f"2 differences accepted by {pages.user}: lost by a restore")
    page.leave_frame()


def test_the_page_of_releases(mended: Up, pages: Pages) -> None:
    """The feed is taken back to the previous release, with a reason, and forward again."""
    page, control = pages.browser, ControlStore(Settings().control_url)
    newest = control.releases.of_feed(ADDED)[-1].id
    pages.go(f"plugin/ledger/changeledger/feeds/{ADDED}/releases")
    page.enter_frame()
    for number, asked, reason in (
        (newest - 1, "Take back to this release", "wrong rows"),
        (newest, "Go forward to this release", "they were right"),
    ):
        release = f"//article[@id='r{number}']"
        page.click(f"{release}//summary[.='{asked}']")
        page.type(f"{release}//input[@name='reason']", reason)
        page.click(f"{release}//button")
        pages.await_text(f"by {pages.user}: {reason}")
        last = control.releases.of_feed(ADDED)[-1]
        expected = (number, pages.user, reason, "completed")
        assert (last.rolled_back_to, last.by, last.reason, last.status) == expected


def test_a_lost_connection(mended: Up) -> None:
    """The log of a failed task ends with the remedy, without a traceback, and `status` says why."""
    at = mended.shell
    at.api("DELETE", "connections/shop_sqlserver")
    at.api("POST", f"dags/{ADDED}/dagRuns", {"dag_run_id": "without", "logical_date": None})
    at.await_rows("SELECT 1 FROM dag_run WHERE run_id = 'without' AND state = 'failed'")
    (file,) = at.airflow.home.glob(f"logs/dag_id={ADDED}/run_id=without/task_id=extract/*.log")
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    what, remedy, ended, alert = (line for line in lines if line["level"] == "error")
    assert what["event"] == "the Airflow connection 'shop_sqlserver' does not exist"
    assert remedy["event"].strip().startswith("Remedy: create it under Admin > Connections")
    # Airflow's own last line, and what the alert says.
    assert ended["event"] == "Task exited"
    assert "Remedy: create it under Admin > Connections" in ended["exit_code"]
    assert alert["event"].startswith(f"event=failed feed={ADDED}")
    assert "Traceback" not in file.read_text("utf-8")
    status = " ".join(at.up(f"changeledger status {ADDED}", code=1).split())
    assert "FAILED extract" in status
    assert "the Airflow connection 'shop_sqlserver' does not exist" in status


def test_a_shell_of_one_that_has_ended(installed: Up) -> None:
    """After the installation has ended, a query still works, and a command that needs it fails at once."""
    at = installed.shell
    installed.stack.close()
    old = at.home / "old_env"
    old.write_text(at.environment, "utf-8")
    sql = f'"SELECT count(*) FROM lake.{FEED}.dbo_customers"'
    assert "1 row" in at.run(f". {old}\nchangeledger query {sql}")
    began = time.monotonic()
    answer = at.run(f". {old}\nchangeledger query --spark {sql}", code=1)
    assert time.monotonic() - began < 60, "not the ten minutes that Spark's client would wait"
    assert "/env" in answer, answer


def whole_hours(moment: datetime) -> list[str]:
    """Returns the README's dates: four hours ago, and one hour ago."""
    return [f"{moment - ago * HOUR:%Y-%m-%dT%H:00}" for ago in (4, 1)]


def change(file: Path, text: str, to: str) -> None:
    assert text in file.read_text("utf-8")
    file.write_text(file.read_text("utf-8").replace(text, to), "utf-8")
