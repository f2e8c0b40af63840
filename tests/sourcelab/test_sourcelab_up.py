"""What `make up` prints once everything runs, and the file that it leaves for shells."""

from __future__ import annotations

import io
import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from changeledger.config.settings import PROJECT, Settings
from sourcelab import up
from sourcelab.airflow_home import AirflowHome
from sourcelab.lab import Sources
from sourcelab.shared_workers import SharedWorkers
from sourcelab.traffic import Traffic

NOW = datetime(2026, 8, 7, 16, 25, tzinfo=UTC)


@pytest.fixture
def airflow(tmp_path: Path) -> AirflowHome:
    home = AirflowHome(tmp_path)
    home.home.mkdir()
    password = {"admin": "pass[bold]word"}
    (home.home / "simple_auth_manager_passwords.json.generated").write_text(json.dumps(password))
    home.keep_metadata_in("postgresql://u:it's@127.0.0.1:1/airflow")
    home.serve_at(8080)
    return home


def test_where_everything_is_and_what_to_try(tmp_path: Path, airflow: AirflowHome) -> None:
    sources = Sources(tmp_path)
    console = Console(record=True, width=200, file=io.StringIO())
    lines = up.welcome(tmp_path, Settings(home=tmp_path), sources, airflow, Traffic(7, NOW))
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)
    printed = console.export_text()
    for said in (
        "http://127.0.0.1:8080   login admin   password pass[bold]word",
        sources.kafka.bootstrap,
        f"postgresql://changeledger:{sources.postgres.password}@127.0.0.1:0/shop",
        f"CHANGELEDGER_HOME={tmp_path}",
        # The folder itself, which README's "Add a feed" names.
        f"{PROJECT}/include/feeds ",
        "--from-date 2026-08-07T12:00 --to-date 2026-08-07T15:00 \\\n",
        "  1. ", "  2. ", "  3. ",
    ):  # fmt: skip
        assert said in printed


def test_a_shell_gets_what_the_commands_need(tmp_path: Path, airflow: AirflowHome) -> None:
    sources, server = Sources(tmp_path), SharedWorkers(Settings(home=tmp_path), tmp_path)
    up.keep_environment(tmp_path, airflow, sources, server)
    file = tmp_path / "env"
    assert file.stat().st_mode & 0o077 == 0
    shown = "$AIRFLOW__DATABASE__SQL_ALCHEMY_CONN|$SPARK_REMOTE|$AIRFLOW_CONN_SHOP_SQLSERVER"
    command = ["sh", "-c", f'. {file}; command -v airflow; command -v changeledger; echo "{shown}"']
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"})
    *commands, said = ended.stdout.splitlines()
    assert [Path(command).name for command in commands] == ["airflow", "changeledger"]
    metadata, remote, connection = said.split("|")
    assert metadata == "postgresql+psycopg2://u:it's@127.0.0.1:1/airflow"
    assert remote == server.remote
    assert json.loads(connection) == sources.postgres.connection
    assert "AIRFLOW_CONN_SHOP_SQLSERVER" not in airflow.environment, "it would hide the stored one"
