"""The files of a new project and their contents."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from changeledger.model.errors import ConfigError

_HERE: Final = Path(__file__).parent
# The example in `feeds/` of each dialect.
FEEDS: Final[Mapping[str, str]] = {
    "ces": "shop_ces",
    "debezium": "shop_debezium",
    "qlik_messages": "shop_qlik_messages",
    "qlik_tables": "shop_qlik_tables",
    "sqlserver_cdc": "shop_cdc",
}
_DAG_FILES: Final = ("changeledger_dags", "settings_errors")
_KAFKA: Final = (
    """AIRFLOW_CONN_SHOP_KAFKA='{"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:9092"}}'"""
)
# `schema` is the database's name.
_JDBC: Final = (
    """{"conn_type": "mssql", "host": "db.example.com", "port": 1433, "schema": "shop", """
    """"login": "changeledger_reader", "password": "<password>"}"""
)
_CONNECTIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("ces", "debezium", "qlik_messages"), _KAFKA),
    "qlik_tables": f"AIRFLOW_CONN_SHOP_QLIK_TARGET='{_JDBC}'",
    "sqlserver_cdc": f"AIRFLOW_CONN_SHOP_SQLSERVER='{_JDBC}'",
}


def files(project: Path, dialects: Sequence[str]) -> dict[Path, str]:
    """Returns the text of each file by its path in the project."""
    filled = {
        "<project>/dags": shlex.quote(str(project / "dags")),
        "<project>": shlex.quote(str(project)),
        "<connections>": "\n".join(dict.fromkeys(_CONNECTIONS[dialect] for dialect in dialects)),
        "<feed>": FEEDS[dialects[0]],
    }
    return {
        Path("README.md"): _text("README.md", filled),
        Path(".env.example"): _text("env.example", filled),
        Path(".gitignore"): _text("gitignore"),
        **{Path("dags", f"{name}.py"): _text(f"dags/{name}.py") for name in _DAG_FILES},
        **{
            Path("feeds", f"{FEEDS[dialect]}.yaml"): _text(f"feeds/{FEEDS[dialect]}.yaml")
            for dialect in dialects
        },
        Path("databases", "shop.yaml"): _text("databases/shop.yaml"),
    }  # fmt: skip


def write(project: Path, texts: Mapping[Path, str]) -> None:
    """Writes all files. Writes none, and raises ConfigError that names them, if any of them exists."""
    existing = [str(path) for path in texts if (project / path).exists()]
    if existing:
        raise ConfigError(
            f"{project} has {', '.join(existing)} already", "name another folder, or move these files away"
        )
    try:
        for path, text in texts.items():
            (project / path).parent.mkdir(parents=True, exist_ok=True)
            (project / path).write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError(
            f"{project} cannot be written: {error.strerror}", "name a folder that you may write to"
        ) from error


def _text(name: str, filled: Mapping[str, str] | None = None) -> str:
    text = (_HERE / name).read_text("utf-8")
    for word, value in (filled or {}).items():
        text = text.replace(word, value)
    return text
