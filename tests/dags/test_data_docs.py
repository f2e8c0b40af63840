"""The pages of audits behind Airflow's login: of one feed's folder, and nothing else."""

from __future__ import annotations

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
from changeledger.orchestration.compare_dag import compare_dag
from changeledger.orchestration.links import DATA_DOCS, DataDocsLink, ReportLink
from changeledger.orchestration.verify_dag import verify_dag
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
    assert client.get("/shop_cdc/w1/index.html").status_code == 401


def test_access_is_asked_for_the_feeds_own_dag(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Manager:
        def is_authorized_dag(self, *, method: str, details: Any, **_: Any) -> bool:
            asked.append((method, details.id))
            return bool(details.id == "shop_cdc")

    security = "airflow.api_fastapi.core_api.security"
    monkeypatch.setattr(f"{security}.get_auth_manager", Manager)
    monkeypatch.setattr(f"{security}.DagModel.get_team_name", lambda _: None)
    monkeypatch.setitem(data_docs.app.dependency_overrides, get_user, lambda: "somebody")
    assert client.get("/shop_cdc/w1/index.html").text == "shop_cdc/w1/index.html"
    assert client.get("/secret_feed/w1/index.html").status_code == 403
    assert asked == [("GET", "shop_cdc"), ("GET", "secret_feed")]


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
    assert "control store" not in answer.text


def test_the_tasks_link_leads_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://airflow.example/")
    (mounted,) = ChangeledgerPlugin.fastapi_apps
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
