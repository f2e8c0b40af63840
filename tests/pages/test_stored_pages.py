"""Pages in an object store are written whole, replaced, removed, and served behind Airflow's login."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from changeledger.airflow_ui import data_docs
from changeledger.config.object_path import ObjectPath
from changeledger.config.settings import Settings
from changeledger.model.errors import ConfigError
from changeledger.pages import folders, html
from changeledger.state.audit_rows import has_data_docs, offending_rows
from sourcelab.object_store import BUCKET, S3Server
from tests.conftest import JARS

pytestmark = pytest.mark.integration

WINDOWS = [f"20260131T{hour}0000000000Z_20260131T{hour + 1}0000000000Z" for hour in (11, 12)]
EARLIER, LATER = WINDOWS


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(JARS.parent, tmp_path_factory.mktemp("store")) as server:
        yield server


@pytest.fixture
def docs(store: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectPath:
    """The installation's pages, in a folder of this test."""
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CHANGELEDGER_CATALOG", json.dumps({"type": "rest", "uri": "-", **store.members}))
    monkeypatch.setenv("CHANGELEDGER_PAGES", f"s3://{BUCKET}/{tmp_path.name}/pages/")
    folder = Settings().data_docs
    assert isinstance(folder, ObjectPath)
    return folder


@pytest.fixture
def client(docs: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    access = next(r for r in data_docs.app.routes if r.path == "/{dag_id}/{path:path}")  # type: ignore[attr-defined]
    (dependency,) = access.dependencies  # type: ignore[attr-defined]
    monkeypatch.setitem(data_docs.app.dependency_overrides, dependency.dependency, lambda: None)
    return TestClient(data_docs.app, raise_server_exceptions=False)


def files(docs: ObjectPath) -> set[str]:
    return {str(page).removeprefix(f"{docs}/") for page in docs.files()}


def fill(folder: ObjectPath, *names: str) -> None:
    with folders.filled(folder, last="audit.html") as scratch:
        for name in names:
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            (scratch / name).write_text(name, "utf-8")


def test_a_folder_has_the_files_of_its_last_attempt_that_ended_well(docs: ObjectPath, tmp_path: Path) -> None:
    folder = docs / "shop" / LATER
    fill(folder, "audit.html", "static/style.css", "validations/old.html")
    fill(docs / "shop" / f"{LATER}_0a1b2c3d", "audit.html")
    fill(folder, "audit.html", "static/style.css", "validations/new.html")
    with pytest.raises(FileExistsError):
        fill(folder, "audit.html", "static", "static/style.css")
    whole = {f"shop/{LATER}/{name}" for name in ("audit.html", "static/style.css", "validations/new.html")}
    assert files(docs) == {*whole, f"shop/{LATER}_0a1b2c3d/audit.html"}
    assert (folder / "audit.html").read_text("utf-8") == "audit.html"
    folders.remove(folder)
    folders.remove(folder)
    assert files(docs) == {f"shop/{LATER}_0a1b2c3d/audit.html"}
    assert not (tmp_path / "home").exists(), "nothing is written on this disk"


def test_a_report_says_that_its_last_run_failed(docs: ObjectPath) -> None:
    page = docs / "verify_shop" / "index.html"
    with pytest.raises(ConfigError), html.failure_noted(page):
        raise ConfigError("<it> fails", "nothing")
    assert "&lt;it&gt; fails" in page.read_text("utf-8")
    html.put(page, "<!-- failure -->\nproven")
    html.put(docs / "verify_shop" / "proof.md", "<!-- failure -->\nproven")
    html.note_failure(page, "again")
    texts = [(docs / "verify_shop" / name).read_text("utf-8") for name in ("index.html", "proof.md")]
    assert all("again" in text and text.endswith("\nproven") for text in texts)
    assert page.stat().st_mtime > 1.7e9


def test_airflow_serves_a_feeds_folder_and_nothing_else(docs: ObjectPath, client: TestClient) -> None:
    fill(docs / "shop" / EARLIER, "audit.html", "static/style.css")
    fill(docs / "shop" / LATER, "audit.html")
    fill(docs.parent / "secret", "audit.html")
    (docs / "control.db").write_bytes(b"of another")
    shown = client.get(f"/shop/{EARLIER}/audit.html")
    assert (shown.status_code, shown.text) == (200, "audit.html")
    assert shown.headers["Content-Security-Policy"].startswith("sandbox")
    assert shown.headers["Content-Type"].startswith("text/html")
    style = client.get(f"/shop/{EARLIER}/static/style.css")
    assert style.headers["Content-Type"].startswith("text/css")
    listed = client.get("/shop/").text
    assert 0 < listed.index(LATER) < listed.index(EARLIER)
    html.put(docs / "shop" / "index.html", "a report")
    assert client.get("/shop/").text == "a report"
    escapes = ["../control.db", "../../secret/audit.html", "./control.db", f"{EARLIER}/../../control.db"]
    refused = [f"/shop/{quote(escape, safe='')}" for escape in escapes]
    refused += [
        "/%2e%2e/secret/audit.html",
        "/shop//etc/passwd",
        "/nothing/",
        f"/shop/{EARLIER}",
        "/shop/x.html",
    ]
    for path in refused:
        answer = client.get(path)
        assert (path, answer.status_code) == (path, 404)
        assert answer.text.startswith("<!doctype html>")


def test_rows_that_break_a_rule_are_read_from_there(docs: ObjectPath) -> None:
    assert not has_data_docs(Settings(), "shop", EARLIER)
    assert offending_rows(Settings(), "shop", EARLIER) == {}
    html.put(docs / "shop" / EARLIER / "audit.html", "page")
    rows = [{"table": "dbo.t", "rule": "lsn_width", "rows": [{"id": "1"}]}]
    html.put(docs / "shop" / EARLIER / "audit.json", json.dumps(rows))
    assert has_data_docs(Settings(), "shop", EARLIER)
    assert offending_rows(Settings(), "shop", EARLIER) == {("dbo.t", "lsn_width"): [{"id": "1"}]}


def test_a_lost_store_is_said(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = {**Settings().catalog, "s3.endpoint": "http://127.0.0.1:9", "s3.connect-timeout": "1"}
    monkeypatch.setenv("CHANGELEDGER_CATALOG", json.dumps(lost))
    answer = client.get("/shop/index.html")
    assert answer.status_code == 503
    assert "CHANGELEDGER_PAGES" in answer.text
    assert not has_data_docs(Settings(), "shop", EARLIER)
