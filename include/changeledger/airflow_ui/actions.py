"""Actions on the pages: trigger a feed's DAG, and roll back with the command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.exceptions import DagNotFound, ParamValidationError
from airflow.utils.types import DagRunTriggeredByType

import changeledger
from changeledger.model.errors import ConfigError, StageOrderError

_NOT_READ = (
    "Airflow reads the files of feeds about once a minute: try again after a minute. If it still fails, the "
    "import error of `settings_errors.py` above Airflow's list of DAGs says why"
)
# A rollback of a thousand tables takes a minute or two.
_PATIENCE_SECONDS = 600


def trigger(feed: str, answers: Mapping[str, Any], by: str) -> str:
    """Triggers a run and returns its id. Airflow checks the answers like those of its own form.

    Raises ConfigError if Airflow does not have the DAG, or an older one that does not accept the answers: it
    reads the feed's file later than the pages do.
    """
    try:
        run = trigger_dag(
            feed, triggered_by=DagRunTriggeredByType.UI, triggering_user_name=by, conf=dict(answers)
        )
    except DagNotFound:
        raise ConfigError(f"Airflow has no DAG {feed} to trigger", _NOT_READ) from None
    except ParamValidationError as error:
        said = str(error).partition("\n")[0]
        raise ConfigError(f"Airflow's DAG {feed} does not accept this: {said}", _NOT_READ) from None
    return "" if run is None else str(run.run_id)


def roll_back(feed: str, release: int, reason: str, by: str, reads_again: bool) -> None:
    """Rolls back in a separate process: losing a lease ends the process, and this process serves Airflow.

    Raises StageOrderError with the command's error.
    """
    # With `=`, whatever a person types is the option's value.
    options = [f"--reason={reason}", f"--by={by}", *([] if reads_again else ["--keep-position"])]
    command = [sys.executable, "-m", "changeledger.cli", "rollback", *options, "--", feed, str(release)]
    package = str(Path(changeledger.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    try:
        done = subprocess.run(  # noqa: S603 - this program's own command
            command, env=environment, capture_output=True, text=True, check=False, timeout=_PATIENCE_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise StageOrderError(
            f"the rollback did not end within {_PATIENCE_SECONDS} s and was stopped",
            f"roll back again, preferably with `changeledger rollback {feed} {release} --reason ...`: it "
            "continues where it stopped. The feed's runs wait until then, or for an hour",
        ) from None
    if done.returncode:
        said, _, remedy = done.stderr.strip().partition("\n  Remedy: ")
        raise StageOrderError(said or "the command has failed", remedy or "read the API server's log")
