"""Addresses, for tasks and messages, of Airflow's pages and of the ledger's, which `airflow_ui` serves in it.

Addresses for messages are None if Airflow does not know its own address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from changeledger.model.window import Window

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

DATA_DOCS = "/data-docs"


class DataDocsLink(BaseOperatorLink):
    """The link from an audit to its Data Docs. Airflow asks for it when the task has succeeded or failed."""

    name = "Data Docs"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        window: Window = operator.window  # type: ignore[attr-defined]
        return _page(ti_key.dag_id, window.id, "audit.html")


class ReportLink(BaseOperatorLink):
    """The link from a comparison or verification to its page."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow's
        return report(ti_key.dag_id)


def data_docs() -> str:
    """Returns the address of all Data Docs, or an empty text if Airflow does not know its own."""
    base = _base()
    return base + DATA_DOCS if base else ""


def report(dag_id: str) -> str:
    """Returns the address of a comparison's or verification's page."""
    return _page(dag_id, "index.html")


def _page(*place: str) -> str:
    return "/".join([data_docs() or DATA_DOCS, *place])


def ledger_page(event: str, told: Mapping[str, Any]) -> str | None:
    """Returns the page with cause and remedy of a message about a window, a feed or a database.

    `told`: see `alerts`.
    """
    feed, window, database = (told.get(name) for name in ("feed", "window", "database"))
    if feed and window and event == "quarantined":
        return _in_ledger(f"feeds/{_part(feed)}/quarantine?run={_part(window)}")
    if feed and window and event == "failed":
        return _in_ledger(f"feeds/{_part(feed)}/windows/{_part(window)}")
    if feed:
        return _in_ledger(f"feeds/{_part(feed)}")
    return _in_ledger(f"agreement/{_part(database)}") if database else None


def run_page(feed: str, run: str | None) -> str | None:
    """Returns the page of a run of the feed's DAG."""
    base = _base()
    return f"{base}/dags/{_part(feed)}/runs/{_part(run)}" if base and run else None


def _in_ledger(path: str) -> str | None:
    """Returns the address of a ledger's page in Airflow: the view's address, followed by the frame's."""
    base = _base()
    return f"{base}/plugin/ledger{urlsplit(base).path}/changeledger/{path}" if base else None


def _base() -> str:
    """Returns Airflow's own address (`[api] base_url`), or an empty text if it is not set."""
    return (conf.get("api", "base_url", fallback="") or "").rstrip("/")


def _part(text: str) -> str:
    return quote(text, safe="")
