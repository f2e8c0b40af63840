"""One script for each job: arguments and one call. Airflow's tasks run them by their path (`script`)."""

from __future__ import annotations

from pathlib import Path


def script(job: str) -> Path:
    """The script's file: spark-submit takes no module."""
    return Path(__file__).with_name(f"{job}.py")
