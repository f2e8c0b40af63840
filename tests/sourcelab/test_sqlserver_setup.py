"""The T-SQL scripts for SQL Server and Debezium's connector agree with the feeds that read them.

No SQL Server is available, so the scripts' structure and names are checked.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import pytest
from sqlalchemy import Select
from sqlalchemy.dialects import mssql

from changeledger.config.feed import Feed
from changeledger.config.files import load_feeds
from changeledger.config.settings import PROJECT
from changeledger.dialects.sqlserver_cdc.catalog import CdcCatalog
from changeledger.dialects.sqlserver_cdc.clock import RepeatedHour
from changeledger.dialects.sqlserver_cdc.instances import CaptureInstance
from changeledger.dialects.sqlserver_cdc.time_mapping import TimeMapping
from changeledger.jdbc.database import header
from changeledger.model.contract import Column, Contract
from sourcelab.tables import TABLES

FOLDER = PROJECT / "docker" / "sqlserver"
SCRIPTS = ("shop", "cdc", "grants", "ces")
READER = "changeledger_reader"
CONNECTOR: dict[str, str] = json.loads((PROJECT / "docker" / "debezium" / "shop.json").read_text("utf-8"))


def script(name: str) -> str:
    """Returns a script without its comments."""
    return re.sub(r"(?m)--.*$", "", (FOLDER / f"{name}.sql").read_text("utf-8"))


@cache
def feed(name: str) -> Feed:
    return load_feeds(PROJECT / "include" / "feeds")[name]


def tables(name: str) -> set[str]:
    return {table.table for table in feed(name).tables}


def calls(text: str, procedure: str) -> list[dict[str, str]]:
    """Returns the named arguments of every call of a procedure; N'...' without its quotes."""
    argument_lists = re.findall(rf"EXEC {re.escape(procedure)}\s+(@[^;]*);", text)
    return [dict(re.findall(r"@(\w+) = (?:N')?([^',\s]*)", arguments)) for arguments in argument_lists]


def grants(login: str) -> set[tuple[str, str]]:
    """Returns (right, securable) pairs. Securables are as written: OBJECT::cdc.change_tables."""
    reported = re.findall(rf"GRANT ([A-Z ]+) ON (\S+) TO {login};", script("grants"))
    return {(right, securable) for right, securable in reported}


@pytest.mark.parametrize("name", SCRIPTS)
def test_batches_are_whole(name: str) -> None:
    """GO stands alone and ends the file. Quotes, brackets and BEGIN ... END close within their batch."""
    text = script(name)
    assert text.rstrip().endswith("\nGO")
    assert len(re.findall(r"(?i)\bgo\b", text)) == len(re.findall(r"(?m)^GO$", text))
    for batch in re.split(r"(?m)^GO$", text):
        assert batch.count("'") % 2 == 0, batch
        bare = re.sub(r"'[^']*'", "''", batch)
        assert bare.count("(") == bare.count(")"), batch
        assert len(re.findall(r"\bBEGIN\b", bare)) == len(re.findall(r"\bEND\b", bare)), batch
        assert not batch.strip() or batch.strip().endswith(";") or batch.strip() == "USE shop", batch


@pytest.mark.parametrize("name", SCRIPTS)
def test_nothing_is_made_twice_and_nothing_is_removed(name: str) -> None:
    """Each CREATE, and each call that would fail the second time, follows an IF that tests for existence."""
    text = script(name)
    assert not re.search(r"(?i)\b(drop|delete|truncate|revoke)\b", text)
    once = (
        r"CREATE (?:DATABASE(?! SCOPED)|LOGIN|USER|TABLE|MASTER|DATABASE SCOPED)|EXEC sys\.sp_cdc_enable_\w+"
    )
    for statement in re.finditer(rf"\n( *)(?:{once})", text):
        before = text[: statement.start()].rstrip().rpartition("\n")[2]
        assert statement[1] == "    ", statement[0]
        assert before.startswith("IF "), before


def test_the_tables_are_those_of_the_simulated_source() -> None:
    text = script("shop")
    assert set(re.findall(r"CREATE TABLE (\S+)", text)) == {t.full_name for t in TABLES}
    for table in TABLES:
        body = re.search(rf"CREATE TABLE {re.escape(table.full_name)} \((.*?)\n    \);", text, re.DOTALL)
        assert body is not None
        *lines, key = [line.strip().rstrip(",") for line in body[1].strip().splitlines()]
        assert key == f"CONSTRAINT pk_{table.name} PRIMARY KEY ({', '.join(table.key)})"
        wanted = []
        for column in table.columns:
            identity = " IDENTITY" if table.identity and column.name in table.key else ""
            null = "NULL" if column.nullable else "NOT NULL"
            wanted.append(f"{column.name} {column.type}{identity} {null}")
        assert lines == wanted


def test_every_table_of_the_feed_is_captured_under_the_default_name() -> None:
    captured = calls(script("cdc"), "sys.sp_cdc_enable_table")
    assert {f"{c['source_schema']}.{c['source_name']}" for c in captured} == tables("shop_cdc")
    for call in captured:
        assert call["capture_instance"] == f"{call['source_schema']}_{call['source_name']}"
        assert f"capture_instance = N'{call['capture_instance']}')" in script("cdc")
        assert (call["role_name"], call["supports_net_changes"]) == ("cdc_gate", "0")
    assert len(captured) == 4


def test_the_reader_may_read_what_the_feeds_sql_names_and_nothing_else() -> None:
    """Compiles every SELECT of the dialect for SQL Server, for every table of the feed."""
    catalog, mapping, position = CdcCatalog("cdc"), TimeMapping("cdc"), bytes(10)
    hour = RepeatedHour(datetime(2026, 10, 25, 2), datetime(2026, 10, 25, 3))
    queries: list[Select[Any]] = [
        catalog.capture_instances(), header(catalog.columns),
        catalog.captured_columns(["column_id", "system_type_id", "is_masked", "is_identity"]),
        mapping.highest_lsn(),
        mapping.transactions(None, position), mapping.commit_times([position]), mapping.newest_transaction(),
        mapping.span(), mapping.around(hour),
    ]  # fmt: skip
    for table in TABLES:
        instance = CaptureInstance(table.capture_instance, 1, table.full_name, position)
        writer_schema = Contract(
            table=table.full_name,
            columns=tuple(Column(name=c.name, type=c.type, ordinal=c.ordinal) for c in table.columns),
        )
        queries += [
            catalog.row_count(instance, None, position), header(catalog.change_table(instance)),
            catalog.changes(instance, writer_schema, ["__$start_lsn"], None, position),
        ]  # fmt: skip
    named: set[str] = set()
    for query in queries:
        text = str(query.compile(dialect=mssql.dialect(), compile_kwargs={"literal_binds": True}))
        named |= set(re.findall(r"(?:FROM|JOIN) ([\w.\[\]]+)", text.replace("[", "").replace("]", "")))
    of_capture = {name for name in named if name.startswith("cdc.")}
    # Everybody may read catalog views. They show only what one has a right on.
    assert named - of_capture == {"sys.tables", "sys.schemas", "sys.columns"}
    shown = {("VIEW DEFINITION", f"SCHEMA::{table.partition('.')[0]}") for table in tables("shop_cdc")}
    # `verify` reads the rows themselves.
    rows = {("SELECT", f"OBJECT::{table}") for table in tables("shop_cdc")}
    assert grants(READER) == {("SELECT", f"OBJECT::{name}") for name in of_capture} | shown | rows


def test_debezium_may_read_the_capture_and_the_rows_of_its_tables() -> None:
    rows = {("SELECT", f"OBJECT::{table}") for table in tables("shop_debezium")}
    assert grants("debezium") == rows | {("SELECT", "SCHEMA::cdc")}
    assert re.findall(r"ALTER ROLE (\w+) ADD MEMBER (\w+)", script("grants")) == [("cdc_gate", "debezium")]
    assert len(re.findall(r"\bGRANT\b", script("grants"))) == len(grants("debezium")) + len(grants(READER))


def test_change_event_streaming_sends_the_feeds_tables_to_the_feeds_topic() -> None:
    text = script("ces")
    (group,) = calls(text, "sys.sp_create_event_stream_group")
    (topic,) = feed("shop_ces").source.model_dump()["topics"]
    assert group["destination_location"] == f"$(CES_NAMESPACE).servicebus.windows.net:9093/{topic}"
    assert group["destination_type"] == "AzureEventHubsApacheKafka"
    # The reader knows JSON only.
    assert group["encoding"] == "JSON"
    added = calls(text, "sys.sp_add_object_to_event_stream_group")
    assert {call["object_name"] for call in added} == tables("shop_ces")
    assert {call["stream_group_name"] for call in added} == {group["stream_group_name"]}
    for call in added:
        assert (call["include_all_columns"], call["include_old_values"], call["include_old_lob_values"]) == (
            "1",
        ) * 3
    # The order matters: the database's own key, what it encrypts, then the group that names it.
    steps = (
        "RECOVERY FULL",
        "PREVIEW_FEATURES",
        "MASTER KEY",
        "SCOPED CREDENTIAL",
        "sp_enable",
        "sp_create",
        "sp_add",
    )
    assert [text.index(step) for step in steps] == sorted(text.index(step) for step in steps)
    assert group["destination_credential"] == "event_hub"
    assert "CREATE DATABASE SCOPED CREDENTIAL event_hub " in text


def test_the_connector_writes_what_the_feed_expects() -> None:
    source = feed("shop_debezium").source.model_dump()
    modes = ("decimal.handling.mode", "time.precision.mode", "binary.handling.mode")
    for name in ("unavailable.value.placeholder", *modes):
        assert CONNECTOR[name] == source[name]
    assert set(CONNECTOR["table.include.list"].split(",")) == tables("shop_debezium")
    assert CONNECTOR["database.names"] == feed("shop_debezium").database
    # The feed takes columns and keys from the schema block.
    for part in ("key", "value"):
        assert CONNECTOR[f"{part}.converter"] == "org.apache.kafka.connect.json.JsonConverter"
        assert CONNECTOR[f"{part}.converter.schemas.enable"] == "true"


def test_the_feed_reads_the_connectors_topics_and_no_others_of_its_own() -> None:
    """The feed reads <prefix>.<database>.<schema>.<table> and the heartbeats.

    It reads neither schema changes nor the history.
    """
    prefix, patterns = CONNECTOR["topic.prefix"], feed("shop_debezium").source.model_dump()["topics"]

    def is_read(topic: str) -> bool:
        return any(fnmatchcase(topic, pattern) for pattern in patterns)

    data = [f"{prefix}.{CONNECTOR['database.names']}.{table}" for table in sorted(tables("shop_debezium"))]
    assert all(map(is_read, [*data, f"__debezium-heartbeat.{prefix}"]))
    assert int(CONNECTOR["heartbeat.interval.ms"]) > 0
    assert not is_read(CONNECTOR["schema.history.internal.kafka.topic"])
    assert not is_read(prefix)


def test_the_connector_holds_no_secret() -> None:
    assert CONNECTOR["database.password"] == "${directory:/run/secrets:DEBEZIUM_PASSWORD}"
    assert [name for name in CONNECTOR if "password" in name] == ["database.password"]
