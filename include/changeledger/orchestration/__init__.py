"""Airflow's side: `feed_dag` makes the DAG of a feed. Imports nothing heavy: DAG files are parsed often."""

from changeledger.orchestration.feed_dag import STAGES, feed_dag, resolve_window
from changeledger.orchestration.stage_operator import StageOperator

__all__ = ["STAGES", "StageOperator", "feed_dag", "resolve_window"]
