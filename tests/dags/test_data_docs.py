"""Audit pages behind Airflow's login: a user sees the folders of permitted feeds, and nothing else."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from airflow.api_fastapi.core_api.security import get_user
from airflow.sdk.types import TaskInstanceKey
from fastapi.testclient import TestClient

from changeledger.airflow_ui import data_docs
from changeledger.airflow_ui.plugin import ChangeledgerPlugin
from changeledger.config.database import Database
from changeledger.config.files import readable_feeds
from changeledger.config.settings import Settings
from changeledger.model.window import Window
from changeledger.orchestration import job_operator
from changeledger.orchestration.database_dags import compare_dag, verify_dag
from changeledger.orchestration.links import DATA_DOCS, DataDocsLink, ReportLink
from tests.dags.test_stage_operator import ARGUMENTS, operator


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path / "home"))
    docs = Settings().data_docs
    for name in ("shop_cdc/w1/index.html", "shop_cdc/w1/static/style.css", "secret_feed/w1/index.html"):
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(name)
    (tmp_path / "home" / "control.db").write_text("control store")
    (docs / "shop_cdc" / "out").symlink_to(tmp_path / "home")
    return TestClient(data_docs.app)


@pytest.fixture
def logged_in(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    access = next(r for r in data_docs.app.routes if r.path == "/{dag_id}/{path:path}")  # type: ignore[attr-defined]
    (dependency,) = access.dependencies  # type: ignore[attr-defined]
    monkeypatch.setitem(data_docs.app.dependency_overrides, dependency.dependency, lambda: None)
    return client


def test_without_a_login_nothing_is_shown(client: TestClient) -> None:
    for path in ("/", "/shop_cdc/", "/shop_cdc/w1/index.html", "/nothing"):
        answer = client.get(path)
        assert answer.status_code == 401
        assert "Log in to Airflow" in answer.text
        assert "shop_cdc" not in answer.text


def test_access_is_asked_for_the_feeds_own_dag(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Manager:
        def is_authorized_dag(self, *, method: str, details: Any, **_: Any) -> bool:
            asked.append((method, details.id))
            return bool(details.id == "shop_cdc")

    for place in ("airflow.api_fastapi.core_api.security", "changeledger.airflow_ui.data_docs"):
        monkeypatch.setattr(f"{place}.get_auth_manager", Manager)
    monkeypatch.setattr("airflow.models.DagModel.get_team_name", lambda _: None)
    monkeypatch.setitem(data_docs.app.dependency_overrides, get_user, lambda: "somebody")
    assert client.get("/shop_cdc/w1/index.html").text == "shop_cdc/w1/index.html"
    assert client.get("/secret_feed/w1/index.html").status_code == 403
    assert asked == [("GET", "shop_cdc"), ("GET", "secret_feed")]
    # The list of all feeds has those that the user may see.
    everything = client.get("/")
    assert everything.headers["Content-Security-Policy"].startswith("sandbox")
    assert everything.headers["Content-Type"].startswith("text/html")
    assert 'href="shop_cdc/"' in everything.text
    assert "secret_feed" not in everything.text


def test_pages_are_shown_apart_from_airflows_origin(logged_in: TestClient) -> None:
    page = logged_in.get("/shop_cdc/w1/index.html")
    assert page.text == "shop_cdc/w1/index.html"
    assert page.headers["Content-Security-Policy"].startswith("sandbox")
    assert logged_in.get("/shop_cdc/w1/static/style.css").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "shop_cdc/w2/index.html",
        "shop_cdc/w1",
        f"shop_cdc/{quote('../secret_feed/w1/index.html', safe='')}",
        f"shop_cdc/{quote('../../control.db', safe='')}",
        f"{quote('..', safe='')}/control.db",
        "%2e%2e/control.db",
        "shop_cdc/out/control.db",
        "shop_cdc//etc/passwd",
        "./control.db",
    ],
)
def test_nothing_else_is_shown(logged_in: TestClient, path: str) -> None:
    answer = logged_in.get(f"/{path}")
    assert answer.status_code == 404
    assert answer.text.startswith("<!doctype html>")
    assert "control store" not in answer.text


def test_the_windows_of_a_feed_are_listed_newest_first(logged_in: TestClient) -> None:
    docs = Settings().data_docs
    ids = [f"20260131T{hour}3000000000Z_20260131T{hour + 1}0000000000Z" for hour in (11, 12)]
    for at, name in enumerate((*ids, f"{ids[0]}_0a1b2c3d")):
        page = docs / "shop_cdc" / name / "audit.html"
        page.parent.mkdir()
        page.touch()
        os.utime(page, (at, at))
    shown = re.findall(r'<a href="(\w+)/audit.html">(.*?)</a>', logged_in.get("/shop_cdc/").text)
    assert shown == [
        (f"{ids[0]}_0a1b2c3d", "2026-01-31 11:30 to 2026-01-31 12:00 UTC, read again"),
        (ids[1], "2026-01-31 12:30 to 2026-01-31 13:00 UTC"),
        (ids[0], "2026-01-31 11:30 to 2026-01-31 12:00 UTC"),
    ]
    (docs / "shop_cdc" / "index.html").write_text("a report")
    assert logged_in.get("/shop_cdc/").text == "a report"


def test_the_tasks_link_leads_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example/")
    mounted = next(m for m in ChangeledgerPlugin.fastapi_apps if m["app"] is data_docs.app)
    assert mounted["url_prefix"] == DATA_DOCS
    key = TaskInstanceKey("shop_cdc", "audit", "manual__1", 1, -1)
    audit = operator("audit")
    audit.window = Window(start=ARGUMENTS[3], end=ARGUMENTS[5])  # type: ignore[arg-type]
    link = DataDocsLink().get_link(audit, ti_key=key)
    compared = TaskInstanceKey("compare_shop", "compare", "manual__1", 1, -1)
    report = ReportLink().get_link(operator(), ti_key=compared)
    assert report == "http://airflow.example/data-docs/compare_shop/index.html"
    window = "20260131T110000000000Z_20260131T120000000000Z"
    assert link == f"http://airflow.example/data-docs/shop_cdc/{window}/audit.html"


@pytest.mark.parametrize(
    ("base", "links_to"),
    [("https://airflow.example/team/", "https://airflow.example/team/data-docs"), ("", "")],
)
def test_jobs_name_pages_by_their_links(monkeypatch: pytest.MonkeyPatch, base: str, links_to: str) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base)
    assert job_operator._job_environment()["CHANGELEDGER_PAGES_URL"] == links_to


def test_the_report_is_linked_where_people_look_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example")
    feeds, _ = readable_feeds(Settings().feeds)
    database = Database(database="shop")
    for dag in (compare_dag(database, feeds), verify_dag(database, feeds)):
        assert f"](http://airflow.example/data-docs/{dag.dag_id}/index.html)" in dag.doc_md
