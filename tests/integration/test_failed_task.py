"""What a person reads of a stage that failed: Airflow's own task runner, and its log."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from changeledger.model.window import Window
from sourcelab.airflow_home import AirflowHome

pytestmark = pytest.mark.integration

# As `airflow dags test` prints them: level, text, and what a structured line has beside.
LINE = re.compile(r"^\S+ \[(\w+) *\] +(.*?) +\[[\w.]+\](.*)$", re.MULTILINE)


def test_the_remedy_ends_the_log_without_a_traceback(tmp_path: Path) -> None:
    airflow = AirflowHome(tmp_path)
    airflow.forbid_retries()
    with airflow.migrate() as migration:
        migration.wait()
    end = datetime.now(UTC).replace(microsecond=0)
    over = Window(start=end - timedelta(hours=1), end=end)
    with airflow.test_dag("shop_cdc", "feeds.py", over) as run:
        while run.running:
            time.sleep(0.1)
    log = run.log.read_text("utf-8")
    assert airflow.task_runs("shop_cdc")[0].state == "failed"
    assert "Traceback" not in log
    (what, _), (remedy, _), (ended, code), (alert, _) = (
        line[1:] for line in LINE.findall(log) if line[0] == "error"
    )
    assert what == "the Airflow connection 'changeledger_spark' does not exist"
    assert remedy.startswith("Remedy: create it under Admin > Connections")
    # Airflow's own last line, and what the alert says.
    assert ended == "Task exited"
    assert "Remedy: create it under Admin > Connections" in code
    assert alert.startswith("event=failed feed=shop_cdc")
