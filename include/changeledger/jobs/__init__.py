"""One script for each job, which takes arguments and makes one call. Airflow's tasks run it by its path."""

from __future__ import annotations

from pathlib import Path


def script(job: str) -> Path:
    """Returns the script's file, because spark-submit takes no module."""
    return Path(__file__).with_name(f"{job}.py")
