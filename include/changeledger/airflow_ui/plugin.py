"""Airflow's plugin: pyproject.toml names it as an entry point."""

from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from changeledger.airflow_ui import data_docs
from changeledger.airflow_ui.app import PREFIX, app
from changeledger.airflow_ui.last_slash import LastSlash

# Airflow may be served below a path. Not its whole address: the browser may know it by another name.
_ROOT = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/") + PREFIX
_ICONS = {"icon": f"{_ROOT}/icon.svg?light", "icon_dark_mode": f"{_ROOT}/icon.svg?dark"}
_DATA_DOCS = "/data-docs"
_DAG = f"{_ROOT}/dags/{{DAG_ID}}"


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
    # Each needs a route of its own. What is in braces Airflow fills in.
    external_views = [  # noqa: RUF012
        {
            "name": "Ledger",
            "href": f"{_ROOT}/",
            "destination": "nav",
            "nav_top_level": True,
            "url_route": "ledger",
            **_ICONS,
        },
        {"name": "Ledger", "href": _DAG, "destination": "dag", "url_route": "ledger_dag", **_ICONS},
        {
            "name": "Ledger",
            "href": f"{_DAG}/runs/{{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "ledger_run",
            **_ICONS,
        },
        {
            "name": "Ledger",
            "href": f"{_DAG}/runs/{{RUN_ID}}/tasks/{{TASK_ID}}",
            "destination": "task_instance",
            "url_route": "ledger_task",
            **_ICONS,
        },
    ]
