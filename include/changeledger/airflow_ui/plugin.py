"""Airflow's plugin: AIRFLOW__CORE__PLUGINS_FOLDER names this folder."""

from airflow.plugins_manager import AirflowPlugin

from changeledger.airflow_ui.data_docs import app


class ChangeledgerPlugin(AirflowPlugin):
    name = "changeledger"
    fastapi_apps = [{"app": app, "url_prefix": "/data-docs", "name": "Data Docs"}]  # noqa: RUF012 - Airflow's
