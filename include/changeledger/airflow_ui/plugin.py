"""The Airflow plugin, an entry point in pyproject.toml."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from changeledger.airflow_ui import data_docs
from changeledger.airflow_ui.app import PREFIX, app

# Airflow may be served below a path. Only the path, because the browser may know the host by another name.
_ROOT = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/") + PREFIX
_ICONS = {"icon": f"{_ROOT}/icon.svg?light", "icon_dark_mode": f"{_ROOT}/icon.svg?dark"}
_DATA_DOCS = "/data-docs"
_DAG = f"{_ROOT}/dags/{{DAG_ID}}"


class LastSlash:
    """Middleware of Airflow's API server that redirects from a prefix (`/changeledger`) to its app.

    Airflow mounts an app at `<prefix>/`. It takes `<prefix>`, as people type it, for one of its own pages and
    answers that it does not exist, even in the frame of `/plugin/ledger/changeledger`.
    """

    def __init__(self, app: ASGIApp, prefixes: Collection[str]) -> None:
        self._app, self._prefixes = app, prefixes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http":
            # Airflow may be served below a path, which a proxy may have removed.
            path = scope["path"].removeprefix(scope.get("root_path", ""))
            if path in self._prefixes:
                query = scope["query_string"].decode("latin-1")
                # Relative to the browser's address.
                app = RedirectResponse(f"{path.rpartition('/')[2]}/{'?' if query else ''}{query}")
        await app(scope, receive, send)


class ChangeledgerPlugin(AirflowPlugin):
    name = "changeledger"
    fastapi_apps = [  # noqa: RUF012 - Airflow's
        {"app": data_docs.app, "url_prefix": _DATA_DOCS, "name": "Data Docs"},
        {"app": app, "url_prefix": PREFIX, "name": "changeledger"},
    ]
    fastapi_root_middlewares = [  # noqa: RUF012
        {
            "middleware": LastSlash,
            "kwargs": {"prefixes": [_DATA_DOCS, PREFIX]},
            "name": "last slash of changeledger's apps",
        }
    ]
    # Each needs a route of its own. Airflow fills in the names in braces.
    external_views = [  # noqa: RUF012
        {"name": "Ledger", "href": href, "destination": destination, "url_route": route, **more, **_ICONS}
        for destination, route, href, more in (
            ("nav", "ledger", f"{_ROOT}/", {"nav_top_level": True}),
            ("dag", "ledger_dag", _DAG, {}),
            ("dag_run", "ledger_run", f"{_DAG}/runs/{{RUN_ID}}", {}),
            ("task_instance", "ledger_task", f"{_DAG}/runs/{{RUN_ID}}/tasks/{{TASK_ID}}", {}),
        )
    ]
