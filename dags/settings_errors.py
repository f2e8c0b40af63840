"""No Airflow DAG: what is wrong in the YAML of feeds and databases, where Airflow shows import errors."""

from changeledger.orchestration import refuse_wrong_settings

refuse_wrong_settings()
