"""The pages of `changeledger.airflow_ui` without Airflow: all is allowed, nothing can be triggered."""

from __future__ import annotations

from airflow.api_fastapi.core_api.security import get_user
from fastapi.testclient import TestClient

from changeledger.airflow_ui import access, feed_list
from changeledger.airflow_ui.app import PREFIX, app
from changeledger.config.settings import Settings
from changeledger.state.feeds import feeds_of


class _Everybody:
    """Allows everything, as Airflow's auth manager does for an admin."""

    def is_authorized_view(self, **_: object) -> bool:
        return True

    def get_authorized_dag_ids(self, **_: object) -> set[str]:
        return set(feeds_of(Settings().feeds).feeds)


def page_client() -> TestClient:
    """Returns a client for the pages, patched for the rest of the process. Addresses begin with `PREFIX`."""
    for module in (feed_list, access):
        module.get_auth_manager = _Everybody  # type: ignore[attr-defined]
    app.dependency_overrides |= {
        get_user: _Everybody,
        access.triggering: lambda: lambda _feed: True,
        access.MAY_SEE.dependency: lambda: None,
    }
    return TestClient(app, root_path=PREFIX, follow_redirects=False)
