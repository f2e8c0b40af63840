"""A session is the same whatever `spark-defaults.conf` and the language of the JVM are."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

from changeledger.spark import remote, session

# Defaults with which the jobs would read or write something else, or nothing.
DEFAULTS = """
spark.sql.session.timeZone America/St_Johns
spark.sql.parser.escapedStringLiterals true
spark.sql.ansi.enforceReservedKeywords true
spark.sql.retainGroupColumns false
spark.sql.preserveCharVarcharTypeInfo true
"""
NAMES = ["o'ne", "a\\b", 'say "x"', "ends in \\"]
# Unicode's SpecialCasing.txt: in Turkish, an `I` becomes a dotless `i`, in any other language an `i`.
IN_ANY_CASE = ["dbo.\u00dcR\u00dcN_TITLE", "DBO.\u00fcr\u00fcn_Title"]
_SESSION = """
import json, sys

from sqlalchemy import column, select, table

from changeledger.config.connection import Connection
from changeledger.jdbc.database import JdbcDatabase
from changeledger.lake.iceberg import schema_of
from changeledger.model.change import literal
from changeledger.spark.session import spark_session
from changeledger.stages.maintenance.one_key import in_any_case

file, names, in_any_case_names = sys.argv[1], *map(json.loads, sys.argv[2:])
spark = spark_session("any environment")
rows = spark.createDataFrame([(name,) for name in (*names, *in_any_case_names)], "name string")
alike = [f"name = {literal(name)}" for name in names]
same = f"{in_any_case('name')} = {literal(in_any_case_names[0].lower())}"
database = JdbcDatabase("shop", Connection(conn_type="sqlite", host=file))
texts = database.read(spark, [select(column("code")).select_from(table("t"))])
print(json.dumps({
    "names": [[row["name"] for row in rows.where(of_name).collect()] for of_name in alike],
    "in any case": [row["name"] for row in rows.where(same).collect()],
    "groups": rows.groupBy("name").count().columns,
    "type": schema_of((("place", "struct<offset:bigint>"),)).simpleString(),
    "text": [row["code"] for row in texts.collect()],
}))
spark.stop()
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("conf")
    (folder / "spark-defaults.conf").write_text(DEFAULTS, "utf-8")
    with sqlite3.connect(folder / "t.db") as database:
        database.execute("CREATE TABLE t (code VARCHAR(5))")
        database.execute("INSERT INTO t VALUES ('ab')")
    environment = {
        **os.environ,
        "SPARK_CONF_DIR": str(folder),
        "JAVA_TOOL_OPTIONS": "-Duser.language=tr -Duser.country=TR",
        "CHANGELEDGER_HOME": str(folder / "home"),
    }
    arguments = [str(folder / "t.db"), json.dumps(NAMES), json.dumps(IN_ANY_CASE)]
    ended = subprocess.run(
        [sys.executable, "-c", _SESSION, *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout.splitlines()[-1])


def test_names_and_keys_are_found_with_quotes_and_backslashes(answers: Any) -> None:
    """Spark's page "Literals": a backslash escapes, unless `escapedStringLiterals` is set."""
    assert answers["names"] == [[name] for name in NAMES]


def test_tables_are_found_in_any_case_by_a_turkish_jvm(answers: Any) -> None:
    assert answers["in any case"] == IN_ANY_CASE


def test_types_groups_and_texts_are_as_the_jobs_expect(answers: Any) -> None:
    """`offset` is a reserved word of ANSI SQL. Spark's own type varchar(n) cannot be read by JDBC."""
    assert answers["groups"] == ["name", "count"]
    assert answers["type"] == "struct<place:struct<offset:bigint>>"
    assert answers["text"] == ["ab"]


def test_a_connect_server_of_another_version_gets_the_settings_that_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Mock()
    server.conf.getAll = {**session.SQL, "spark.sql.session.timeZone": "Asia/Kathmandu"}
    del server.conf.getAll["spark.sql.retainGroupColumns"]
    server.conf.get = {"spark.sql.parser.escapedStringLiterals": "true"}.get
    builder = Mock()
    builder.remote.return_value.getOrCreate.return_value = server
    monkeypatch.setattr(SparkSession, "builder", builder)
    monkeypatch.setattr(remote, "require_answer", Mock())
    monkeypatch.setattr(session, "send_package", Mock())
    monkeypatch.setenv("SPARK_REMOTE", "sc://spark.example")
    assert session.spark_session("jobs") is server
    assert {call.args for call in server.conf.set.call_args_list} == {
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.sql.retainGroupColumns", "true"),
        ("spark.sql.parser.escapedStringLiterals", "false"),
    }
