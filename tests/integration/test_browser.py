"""A person in front of Airflow: log in, see on the ledger's page what is wrong and why, replay after the fix,
fill the form, see the run succeed, open what its audit found, take a release back and go forward again."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

import httpx
import pytest

from changeledger.control import ControlStore
from sourcelab.airflow_home import AirflowHome
from sourcelab.log import simulate
from tests.integration import browser
from tests.integration.airflow_lab import BEGIN, HOUR, HOURS, Lab, running, spread
from tests.integration.browser import Browser, until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing())),
]

FEED = "watched"
TABLE, OTHER = "dbo.customers", "sales.orders"
_POPOVER = "//*[@data-scope='popover'][@data-part='content'][@data-state='open']"


def test_a_window_and_a_table_by_the_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What SQL Server's masks contradict: updates are quarantined.
    wrong = {"mask_order": "little", "quarantine_limit": 1}
    with running([FEED], [TABLE, OTHER], spread(simulate(5, 12)), tmp_path, monkeypatch, wrong) as lab:
        times = {"start": BEGIN.isoformat(), "end": (BEGIN + HOURS * HOUR).isoformat()}
        lab.cli("dags", "trigger", FEED, "--conf", json.dumps({"mode": "window", **times}))
        lab.await_that(lab.all_done(1))
        with Browser(tmp_path / "chromedriver.log") as page:
            try:
                log_in(page, lab.airflow)
                _replay(page, lab)
                _watch(page, lab)
                _take_back(page, lab)
            except AssertionError:
                page.picture(tmp_path / "failed.png")
                raise


def _replay(page: Browser, lab: Lab) -> None:
    """Cause, record and remedy are on the page; once it is remedied the records are read again."""
    page.click("//a[@href='/plugin/ledger'] | //a[contains(., 'Ledger')]")
    page.enter_frame()
    page.find("//article[contains(., 'quarantined')]")
    page.click(f"//a[.='{FEED}']")
    page.find("//*[contains(., 'could not be read lately')]/a[.='See the records']")
    page.click("//td/a[.='See the records'][contains(@href, 'mask_order_contradicted')]")
    page.find("//dt[.='value']/following::pre[contains(., '__$update_mask')]")
    file = lab.settings.feeds / f"{FEED}.yaml"
    file.write_text(file.read_text().replace("mask_order: little", "mask_order: auto"))
    page.click("//a[.='Overview']")
    page.click("//summary[.='Replay after a fix']")
    page.click("//button[.='Replay now']")
    until(lambda: lab.asked("SELECT count(*) FROM dag_run") == [(2,)], 60, lambda: page.text[:3000])
    ((asked, by),) = lab.asked("SELECT conf, triggering_user_name FROM dag_run ORDER BY id DESC LIMIT 1")
    ((user, _),) = lab.airflow.passwords().items()
    assert (asked["mode"], by) == ("replay", user)
    lab.await_that(lab.all_done(2))
    page.click("//a[.='Overview']")
    until(lambda: "Every record could be read" in page.text, 30, lambda: page.text[:3000])
    page.leave_frame()
    logged = "SELECT owner FROM log WHERE event = 'changeledger_replay'"
    assert lab.asked(logged) == [(user,)]


def _take_back(page: Browser, lab: Lab) -> None:
    """To the release before, with a reason, and forward again."""
    control = ControlStore(lab.settings.control_url)
    newest = control.releases(FEED)[-1]
    page.go(f"{lab.airflow.url}/plugin/ledger/changeledger/feeds/{FEED}/releases")
    page.enter_frame()
    ((user, _),) = lab.airflow.passwords().items()
    for number, asked, reason in (
        (newest.id - 1, "Take back to this release", "wrong rows"),
        (newest.id, "Go forward to this release", "they were right"),
    ):
        release = f"//article[@id='r{number}']"
        page.click(f"{release}//summary[.='{asked}']")
        page.type(f"{release}//input[@name='reason']", reason)
        page.click(f"{release}//button")
        until(lambda: f"by {user}: {reason}" in page.text, 90, lambda: page.text[:3000])  # noqa: B023 - at once
        last = control.releases(FEED)[-1]
        assert (last.rolled_back_to, last.by, last.reason, last.status) == (number, user, reason, "completed")
    page.leave_frame()


def _watch(page: Browser, lab: Lab) -> None:
    page.go(f"{lab.airflow.url}/dags/{FEED}")
    ask(page)
    lab.await_that(lambda: lab.asked("SELECT count(*) FROM dag_run") == [(3,)], 60)

    ((run_id, asked),) = lab.asked("SELECT run_id, conf FROM dag_run ORDER BY id DESC LIMIT 1")
    assert (asked["mode"], asked["tables"]) == ("window", [TABLE])
    page.go(f"{lab.airflow.url}/dags/{FEED}/runs/{run_id}")
    until(lambda: "Success" in page.text and "Running" not in page.text, 240, lambda: page.text[:3000])

    page.go(f"{lab.airflow.url}/dags/{FEED}/runs/{run_id}/tasks/audit/details")
    link = page.attribute("//a[contains(., 'Data Docs')]", "href")
    assert link is not None
    assert re.fullmatch(rf"{lab.airflow.url}/data-docs/{FEED}/\w+Z_\w+Z_[0-9a-f]{{8}}/audit.html", link)
    assert httpx.get(link).status_code == 401, "nothing without a login"
    page.go(link)
    until(lambda: TABLE in page.text, 30, lambda: page.text[:3000])
    assert "rules passed" in page.text
    page.click(f"//summary[contains(., '{TABLE}')]")
    page.click('//p[contains(., "Great Expectations\' pages")]/a[.="rows"]')
    until(lambda: "Expectation Validation Result" in page.text, 30, lambda: page.text[:3000])


def log_in(page: Browser, airflow: AirflowHome) -> None:
    ((user, password),) = airflow.passwords().items()
    page.go(airflow.url)
    page.type("//input[@name='username']", user)
    page.type("//input[@name='password']", password, enter=True)
    page.find("//*[text()='Dags']")


def ask(page: Browser) -> None:
    """Fill in the form on the page of a DAG, and trigger it."""
    page.click("//button[@data-testid='trigger-dag-button']")
    choose(page, "Mode", "window: from start to end")
    pick(page, "Start", BEGIN)
    pick(page, "End", BEGIN + HOUR)
    choose(page, "Tables", TABLE)
    page.click("//button[@data-testid='trigger-dag-submit']")


def field(name: str) -> str:
    return f"//*[@role='group'][.//label[starts-with(normalize-space(.), '{name}')]]"


def choose(page: Browser, name: str, answer: str) -> None:
    """In a select of the form."""
    page.click(f"{field(name)}//input[@role='combobox']")
    page.click(f"//*[@role='option'][contains(., '{answer}')]")


def pick(page: Browser, name: str, moment: datetime) -> None:
    """With the form's date-time picker."""
    page.click(f"{field(name)}//*[@data-testid='datetime-input']")
    page.type(f"{_POPOVER}//input[@placeholder='YYYY/MM/DD']", f"{moment:%Y/%m/%d}")
    time = f"{_POPOVER}//input[@placeholder='HH:mm']"
    page.type(time, f"{moment:%H:%M}", enter=True)
    assert page.value(time) == f"{moment:%H:%M}"
    # Elsewhere, which closes the picker.
    page.click(f"{field(name)}//label")
