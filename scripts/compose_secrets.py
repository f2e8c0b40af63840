"""Creates the secrets of docker-compose.yaml: files in `.secrets/`, each named as the variable it becomes.

Existing files are kept, so that a second run only creates missing ones. Needs only the standard library.
"""
# ruff: noqa: T201 - talks to the terminal

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / ".secrets"


def password() -> str:
    """Returns letters of both cases and digits, as SQL Server requires; URLs and SQL escape none of them."""
    return f"Aa1{secrets.token_hex(20)}"


def fernet_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def make(folder: Path) -> list[str]:
    """Writes missing secrets, and returns their names.

    The folder is closed to the host's other users. The files are readable by all, because Compose mounts them
    with the host's owner and mode, and the containers' users differ.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    names = []

    def secret(name: str, value: str) -> str:
        file = folder / name
        if not file.exists():
            file.write_text(value, "utf-8")
            file.chmod(0o644)
            names.append(name)
        return file.read_text("utf-8")

    secret("AIRFLOW__CORE__FERNET_KEY", fernet_key())
    secret("AIRFLOW__API__SECRET_KEY", password())
    secret("AIRFLOW__API_AUTH__JWT_SECRET", secrets.token_hex(64))
    secret("POSTGRES_PASSWORD", password())
    airflow = secret("AIRFLOW_DB_PASSWORD", password())
    secret("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", _url("psycopg2", "airflow", airflow))
    control = secret("CONTROL_DB_PASSWORD", password())
    secret("CHANGELEDGER_CONTROL_URL", _url("psycopg", "control", control))
    catalog = secret("CATALOG_DB_PASSWORD", password())
    secret("CHANGELEDGER_CATALOG", _catalog(catalog))
    secret("CHANGELEDGER_HASH_KEY", secrets.token_hex(32))
    secret("MSSQL_SA_PASSWORD", password())
    secret("DEBEZIUM_PASSWORD", password())
    reader = secret("SHOP_READER_PASSWORD", password())
    secret("AIRFLOW_CONN_SHOP_SQLSERVER", _sqlserver(reader))
    secret("CES_MASTER_KEY_PASSWORD", password())
    secret("SPARK_AUTHENTICATE_SECRET", password())
    return names


def _url(driver: str, database: str, word: str) -> str:
    """Returns the URL of a database, which has the name of the role that owns it."""
    return f"postgresql+{driver}://{database}:{word}@postgres:5432/{database}"


def _catalog(word: str) -> str:
    """Returns the catalog setting. All containers that use the lake see its files in the same place."""
    uri = _url("psycopg", "catalog", word)
    return json.dumps({"type": "sql", "uri": uri, "warehouse": "/opt/changeledger/warehouse"})


def _sqlserver(word: str) -> str:
    """Returns the connection in Airflow's JSON. The container's certificate is not signed by an authority."""
    return json.dumps(
        {
            "conn_type": "mssql",
            "host": "sqlserver-2022",
            "port": 1433,
            "schema": "shop",
            "login": "changeledger_reader",
            "password": word,
            "extra": {"encrypt": "true", "trustServerCertificate": "true"},
        }
    )


if __name__ == "__main__":
    print(f"{FOLDER}: made {', '.join(make(FOLDER)) or 'nothing, all were there'}")
