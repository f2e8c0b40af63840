"""Links from tasks to their pages, which `airflow_ui` serves behind Airflow's login."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from changeledger.model.window import Window

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

DATA_DOCS = "/data-docs"


class DataDocsLink(BaseOperatorLink):
    """Airflow asks for it when the task has ended, well or not."""

    name = "Data Docs"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        window: Window = operator.window  # type: ignore[attr-defined]
        return _page(ti_key.dag_id, window.id, "audit.html")


class ReportLink(BaseOperatorLink):
    """From a comparison to its report."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:  # noqa: ARG002 - Airflow's
        return report(ti_key.dag_id)


def data_docs() -> str:
    """The address of all Data Docs; empty if Airflow does not know its own."""
    base: str = conf.get("api", "base_url", fallback="")
    return base.rstrip("/") + DATA_DOCS if base else ""


def report(dag_id: str) -> str:
    """The address of a comparison's or verification's page."""
    return _page(dag_id, "index.html")


def _page(*place: str) -> str:
    return "/".join([data_docs() or DATA_DOCS, *place])
