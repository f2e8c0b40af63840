"""The link from an audit task to its Data Docs, which `airflow_ui` serves behind Airflow's login."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from changeledger.config import Window

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

DATA_DOCS = "/data-docs"


class DataDocsLink(BaseOperatorLink):
    """Airflow asks for it when the task has ended, well or not."""

    name = "Data Docs"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        window: Window = operator.window  # type: ignore[attr-defined]
        base: str = conf.get("api", "base_url", fallback="")
        return f"{base.rstrip('/')}{DATA_DOCS}/{ti_key.dag_id}/{window.id}/index.html"
