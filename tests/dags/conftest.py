"""Airflow in a throwaway home. No database is needed."""

import atexit
import os
import shutil
import tempfile

import pytest

HOME = tempfile.mkdtemp(prefix="changeledger-airflow-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

# Airflow reads its home once, at its first import. Other tests start Airflow with their own homes.
with pytest.MonkeyPatch.context() as patch:
    patch.setenv("AIRFLOW_HOME", HOME)
    import airflow.settings  # noqa: F401


@pytest.fixture
def airflow_environment() -> dict[str, str]:
    """The environment of a process that imports Airflow."""
    return {**os.environ, "AIRFLOW_HOME": HOME}
