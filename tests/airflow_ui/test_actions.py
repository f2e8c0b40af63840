"""The pages know feeds from their files, and may ask Airflow for something that it does not have yet."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from airflow.exceptions import DagNotFound, ParamValidationError

from changeledger.airflow_ui import actions
from changeledger.model.errors import ConfigError, StageOrderError

REFUSED = "Invalid input for param tables: 'dbo.new' is not one of ['dbo.t']\n\nFailed validating ..."


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (DagNotFound("Dag id shop not found in DagModel"), "Airflow has no DAG shop to trigger"),
        (ParamValidationError(REFUSED), "DAG shop does not accept this: " + REFUSED.partition("\n")[0]),
    ],
)
def test_a_dag_that_airflow_has_not_read_yet(
    error: Exception, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A feed, or a table of it, that was added a moment ago does not cause an error 500."""

    def trigger_dag(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(actions, "trigger_dag", trigger_dag)
    with pytest.raises(ConfigError, match="Airflow") as raised:
        actions.trigger("shop", {"mode": "replay"}, "ann")
    assert raised.value.message.endswith(says)
    assert "settings_errors.py" in raised.value.remedy


def test_a_rollback_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging catalog causes no error 500.

    The page says that the rollback was stopped, and how to go on.
    """

    def hangs(command: list[str], *, timeout: float, **_: Any) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", hangs)
    with pytest.raises(StageOrderError, match="not end within 600 s") as raised:
        actions.roll_back("shop", 3, "wrong rows", "ann", True)
    assert "changeledger rollback shop 3" in raised.value.remedy
