"""What all pages share: the login, what a browser may do with them, addresses."""

from __future__ import annotations

import pytest
from airflow import plugins_manager
from airflow.api_fastapi.app import init_plugins
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
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


def test_a_slash_too_many_leads_to_the_page(ledger: Installation) -> None:
    ledger.add_feed("shop")
    client = ledger.client
    for path in ("/feeds/shop/quarantine", "/agreement", "/feeds/shop"):
        answer = client.get(f"/changeledger{path}/?a=b")
        expected = f"../{path.rpartition('/')[2]}?a=b"
        assert (answer.status_code, answer.headers["Location"]) == (307, expected)
        assert answer.next_request is not None
        assert answer.next_request.url.path == f"/changeledger{path}"
    assert client.get("/changeledger/nothing").status_code == 404
    assert client.get("/changeledger/").status_code == 200


def test_the_icon_is_seen_on_pale_and_on_dark_ground(ledger: Installation) -> None:
    """Airflow's light mode has both grounds: the selected page's is dark."""
    light, dark = (ledger.client.get(f"/changeledger/icon.svg?{mode}").text for mode in ("light", "dark"))
    assert 'stroke="#3f4650"' in light
    assert 'fill="#ffffff"' in light
    assert 'stroke="#d4d8dd"' in dark
    assert "transparent" not in light + dark


@pytest.mark.parametrize("root", ["", "/airflow"])
def test_an_address_without_its_last_slash_leads_to_the_app(
    ledger: Installation, monkeypatch: pytest.MonkeyPatch, root: str
) -> None:
    """Airflow mounts the plugin before its own pages, which answer everything else."""
    ledger.add_feed("shop")
    parts = ChangeledgerPlugin.fastapi_apps, ChangeledgerPlugin.fastapi_root_middlewares
    monkeypatch.setattr(plugins_manager, "get_fastapi_plugins", lambda: parts)
    airflow = FastAPI(root_path=root)
    init_plugins(airflow)
    airflow.get("/{rest:path}")(lambda: PlainTextResponse("Airflow"))
    client = TestClient(airflow, follow_redirects=False)
    for prefix in ("/changeledger", "/data-docs"):
        answer = client.get(f"{root}{prefix}?a=b%20c")
        assert (answer.status_code, answer.headers["Location"]) == (307, f"{prefix[1:]}/?a=b%20c")
        assert answer.next_request is not None
        assert answer.next_request.url.path == f"{root}{prefix}/"
    assert "/feeds/shop" in client.get(f"{root}/changeledger", follow_redirects=True).text
    for other in ("/changeledgers", "/dags/changeledger", "/"):
        assert client.get(f"{root}{other}").text == "Airflow"
