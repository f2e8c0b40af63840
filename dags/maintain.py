"""The weekly Airflow DAG that compacts the lake and expires what nobody can ask for any more."""

from changeledger.orchestration import maintenance_dag

maintenance_dag()
