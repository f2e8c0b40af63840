"""What all pages share: the login, what a browser may do with them, addresses."""

from __future__ import annotations

from fastapi.testclient import TestClient

from changeledger.airflow_ui.app import app
from changeledger.airflow_ui.plugin import ChangeledgerPlugin
from tests.airflow_ui.pages import Installation


def test_without_a_login_nothing_is_shown() -> None:
    answer = TestClient(app).get("/")
    assert answer.status_code == 401
    assert "Log in to Airflow" in answer.text


def test_only_feeds_whose_dags_the_user_may_see(ledger: Installation) -> None:
    ledger.add_feed("mine")
    ledger.add_feed("secret")
    ledger.user.sees = {"mine"}
    text = ledger.client.get("/changeledger/").text
    assert "/changeledger/feeds/mine" in text
    assert "secret" not in text


def test_the_browser_fetches_and_runs_nothing_else(ledger: Installation) -> None:
    page = ledger.client.get("/changeledger/")
    policy = page.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'; img-src 'self'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "style=" not in page.text
    assert "//" not in page.text.partition("<script>")[0].replace("</", "")
    style = ledger.client.get("/changeledger/style.css")
    assert "url(" not in style.text
    assert "@import" not in style.text


def test_a_feed_file_is_read_again_when_it_changes(ledger: Installation) -> None:
    ledger.add_feed("first")
    assert "/feeds/first" in ledger.client.get("/changeledger/").text
    ledger.add_feed("second")
    assert "/feeds/second" in ledger.client.get("/changeledger/").text


def test_airflow_shows_the_pages_where_people_are() -> None:
    places = {view["destination"]: view["href"] for view in ChangeledgerPlugin.external_views}
    assert places == {
        "nav": "/changeledger/",
        "dag": "/changeledger/dags/{DAG_ID}",
        "dag_run": "/changeledger/dags/{DAG_ID}/runs/{RUN_ID}",
        "task_instance": "/changeledger/dags/{DAG_ID}/runs/{RUN_ID}/tasks/{TASK_ID}",
    }
    routes = [view["url_route"] for view in ChangeledgerPlugin.external_views]
    assert len(set(routes)) == len(routes)
