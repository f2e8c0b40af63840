"""A feed's connections: from the environment, as a job gets them, else from Airflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from changeledger.config.connection import Connection, connection_variable

_PATIENCE_SECONDS = 120


def connection(conn_id: str) -> Connection:
    """Raises ConfigError if neither has it. Airflow's is in the environment afterwards."""
    variable = connection_variable(conn_id)
    if variable not in os.environ:
        stored = _of_airflow(conn_id)
        if stored is not None:
            os.environ[variable] = stored
    return Connection.named(conn_id)


def _of_airflow(conn_id: str) -> str | None:
    """As Airflow finds it, in a secrets backend or its database. None if it does not, or is not set up."""
    command = [sys.executable, "-m", "airflow", "connections", "get", conn_id, "-o", "json"]
    try:
        answer = subprocess.run(  # noqa: S603 - Airflow's own command
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE_SECONDS
        )
        (row,) = json.loads(answer.stdout[answer.stdout.index("[") :])
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    known = ("conn_type", "host", "port", "schema", "login", "password")
    return json.dumps({**{name: row.get(name) for name in known}, "extra": row.get("extra_dejson")})
