"""docs/settings.md, from the models: `python -m changeledger.config.reference` writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from changeledger.config.connection import Connection
from changeledger.config.database import Database, Tolerance, Verify
from changeledger.config.feed import Feed
from changeledger.config.settings import PROJECT, Settings
from changeledger.config.sources import SOURCE_MODELS
from changeledger.config.tables import ColumnConfig, TableConfig

PAGE = PROJECT / "docs" / "settings.md"

_HEAD = """\
# All settings

Written by `python -m changeledger.config.reference` from the models that read the settings: do not
edit this page.
A setting that is not listed is refused, with its file and its name. Durations are in ISO 8601: `PT15M` is
15 minutes, `P7D` is 7 days.
"""
_FEED = "A file in `include/feeds/` is one feed. What to know of each dialect: [feeds.md](feeds.md)."
_SOURCES: Mapping[str, str] = {
    "ces": "Change event streaming of SQL Server 2025.",
    "debezium": "Debezium's SQL Server connector, and how it is set up.",
    "qlik_messages": "Messages of Qlik Replicate or Qlik Talend.",
    "qlik_tables": "Qlik's change tables `<table>__ct`.",
    "sqlserver_cdc": "SQL Server's own CDC tables.",
}
_DATABASE = """\
A file in `include/databases/`, where the defaults do not fit ([compare.md](compare.md),
[verify.md](verify.md))."""
_ENVIRONMENT = """\
Of every process: Airflow's parts, jobs and commands. `SPARK_REMOTE` (`sc://host:port`) makes a command
use a Spark Connect server instead of a Spark of its own; tasks have it from Spark's connection."""
_CONNECTION = """\
Admin > Connections in Airflow, `airflow connections add`, a secrets backend, or the variable
`AIRFLOW_CONN_<ID>` with this as JSON. Examples for every source and every Spark:
[connections.md](connections.md#connections). Other fields are not looked at."""
_WORDS = {
    "string": "text", "boolean": "`true`, `false`", "integer": "whole number", "number": "number",
    "object": "mapping",
}  # fmt: skip
_FORMATS = {"duration": "duration", "path": "folder"}


def page() -> str:
    """The whole page."""
    sections: list[tuple[str, str, type[BaseModel]]] = [
        ("Feed", _FEED, Feed),
        *(
            (f"Feed: `source` of `{name}`", _SOURCES[name], SOURCE_MODELS[name])
            for name in sorted(SOURCE_MODELS)
        ),
        ("Feed: an entry of `tables`", "", TableConfig),
        ("Feed: an entry of `columns`", "", ColumnConfig),
        ("Database", _DATABASE, Database),
        ("Database: `compare`", "", Tolerance),
        ("Database: `verify`", "", Verify),
        ("Environment", _ENVIRONMENT, Settings),
        ("Connection", _CONNECTION, Connection),
    ]
    return "\n".join([_HEAD, *(_section(*section) for section in sections)])


def _section(title: str, text: str, model: type[BaseModel]) -> str:
    schema = model.model_json_schema()
    prefix = "CHANGELEDGER_" if model is Settings else ""
    rows = [
        _row(prefix + (name.upper() if prefix else name), known, name in schema.get("required", ()))
        for name, known in schema["properties"].items()
    ]
    head = ["| setting | meaning | values | default |", "|---|---|---|---|"]
    return "\n".join([f"## {title}\n", *([f"{text}\n"] if text else []), *head, *rows, ""])


def _row(name: str, known: Mapping[str, Any], required: bool) -> str:
    if "description" not in known:
        raise ValueError(f"{name} has no docstring that says what it is")
    meaning = " ".join(known["description"].split())
    return f"| `{name}` | {meaning} | {_values(known)} | {'required' if required else _default(known)} |"


def _values(known: Mapping[str, Any]) -> str:
    """Of a setting's JSON schema."""
    parts = [part for part in known.get("anyOf", ()) if part.get("type") != "null"]
    if "$ref" in known or any("$ref" in part for part in parts):
        return "see below"
    if parts:
        return ", ".join(map(_values, parts))
    choices = known.get("enum", [known["const"]] if "const" in known else [])
    if choices:
        return ", ".join(f"`{choice}`" for choice in choices)
    if known["type"] == "array":
        return f"list: {_values(known['items'])}"
    words = _FORMATS.get(known.get("format", "")) or _WORDS[known["type"]]
    limits = [
        f"{word} {known[name]}" for name, word in (("minimum", "from"), ("maximum", "to")) if name in known
    ]
    return " ".join([words, *limits])


def _default(known: Mapping[str, Any]) -> str:
    value = known.get("default")
    if isinstance(value, dict) and _values(known) == "see below":
        return "see below"
    if value is None or value in ("", [], {}):
        return "none"
    # The same on every machine.
    text = json.dumps(value) if not isinstance(value, str) else value.replace(str(PROJECT), "<project>")
    return f"`{text}`"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
