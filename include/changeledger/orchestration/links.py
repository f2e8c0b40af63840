"""Links from tasks to their pages, which `airflow_ui` serves behind Airflow's login."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from changeledger.window import Window

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
        return _page(ti_key.dag_id, "index.html")


def _page(*place: str) -> str:
    base: str = conf.get("api", "base_url", fallback="")
    return "/".join([base.rstrip("/") + DATA_DOCS, *place])
