"""The weekly Airflow DAG that compacts the lake and removes what is no longer needed."""

from changeledger.orchestration import maintenance_dag

maintenance_dag()
