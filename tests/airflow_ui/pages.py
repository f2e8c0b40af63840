"""A client of the pages, for a user with the Airflow permissions that the test states."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.api_fastapi.core_api.security import get_user
from fastapi.testclient import TestClient

from changeledger.airflow_ui.airflow_runs import RunState
from changeledger.airflow_ui.app import PREFIX, app
from changeledger.config.settings import Settings
from changeledger.control import ControlStore

# Header that a browser sends for a form of the page itself.
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}


@dataclass
class User:
    """A user who may see the DAGs `sees`, and trigger the DAGs `triggers`."""

    sees: Collection[str] = ()
    triggers: Collection[str] = ()
    asked: list[tuple[str, str]] = field(default_factory=list)

    def get_name(self) -> str:
        return "ann"


class Manager:
    """The part of Airflow's auth manager that the pages call."""

    def is_authorized_dag(self, *, method: str, details: Any, user: User, **_: Any) -> bool:
        user.asked.append((method, details.id))
        return details.id in (user.sees if method == "GET" else user.triggers)

    def get_authorized_dag_ids(self, *, user: User, **_: Any) -> set[str]:
        return set(user.sees)

    def is_authorized_view(self, **_: Any) -> bool:
        return True


@dataclass
class Installation:
    """An installation without a lake, and the user who looks at it."""

    folder: Path
    user: User
    # By run id, for any feed.
    airflow_runs: dict[str, RunState] = field(default_factory=dict)

    @property
    def control(self) -> ControlStore:
        return ControlStore(Settings().control_url)

    def add_feed(self, name: str, *tables: str, **settings: Any) -> None:
        """Adds a feed of SQL Server's own change tables, which the user may see and trigger."""
        described = {
            "feed": name, "dialect": "sqlserver_cdc", "database": "shop", "connection": "c", "source": {},
            "tables": [{"table": table} for table in tables or ("dbo.t",)], **settings,
        }  # fmt: skip
        (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(described))
        self.user.sees = {*self.user.sees, name}
        self.user.triggers = {*self.user.triggers, name}

    def run_of(self, _feed: str, run: str) -> RunState:
        return self.airflow_runs.get(run, RunState(run, ""))

    @property
    def client(self) -> TestClient:
        return TestClient(app, root_path=PREFIX, follow_redirects=False)


def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    folder = tmp_path / "feeds"
    folder.mkdir()
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CHANGELEDGER_FEEDS", str(folder))
    (tmp_path / "home").mkdir()
    for place in (
        "airflow.api_fastapi.core_api.security",
        "changeledger.airflow_ui.access",
        "changeledger.airflow_ui.feed_list",
    ):
        monkeypatch.setattr(f"{place}.get_auth_manager", Manager)
    monkeypatch.setattr("airflow.models.DagModel.get_team_name", lambda _: None)
    seen = Installation(folder, User())
    monkeypatch.setitem(app.dependency_overrides, get_user, lambda: seen.user)
    monkeypatch.setattr("changeledger.airflow_ui.airflow_runs.find_run", seen.run_of)
    return seen
