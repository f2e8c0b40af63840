"""Which writer schema a Qlik message has, and what its metadata makes of a column."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changeledger.cli.decode.reader import feed_of
from changeledger.config.feed import Feed
from changeledger.dialects.qlik_messages.metadata import sql_type
from changeledger.dialects.qlik_messages.schemas import Label, NoSchema, WriterSchemas
from changeledger.dialects.qlik_messages.versions import Mark, Versions
from changeledger.model.contract import Contract

ORDERS = {"table": "sales.orders", "columns": [{"name": "no", "type": "int"}], "key": ["no"]}


def feed(*tables: dict[str, Any]) -> Feed:
    return Feed.model_validate(
        {
            "feed": "golden", "dialect": "qlik_messages", "database": "shop", "connection": "shop",
            "source": {"topics": ["qlik.*"]}, "tables": tables or [{"table": "dbo.items"}],
        }
    )  # fmt: skip


def metadata(schema_id: str | None, *columns: str, table: str = "items") -> str:
    described = {
        name: {"ordinal": at, "type": "INT4", "primaryKeyPosition": int(at == 1)}
        for at, name in enumerate(columns, 1)
    }
    lineage = {"schema": "dbo", "table": table}
    return json.dumps(
        {"schemaId": schema_id, "lineage": lineage, "tableStructure": {"tableColumns": described}}
    )


def label(schema_id: str | None = None, table: str | None = "items", topic: str = "any") -> Label:
    return Label(topic, None if table is None else "dbo", table, schema_id)


def mark(at: int) -> Mark:
    """Of metadata in a topic of its own."""
    return Mark(("qlik.meta", 0, at), at, None)


def found(schemas: WriterSchemas, asked: Label) -> list[tuple[tuple[str, ...], int]]:
    """Names and beginnings of the versions that messages with a label may have."""
    routes = schemas.routes(asked)
    assert isinstance(routes, Versions), routes
    return [(version.writer_schema.names, version.since) for version in routes.versions]


def why(schemas: WriterSchemas, asked: Label) -> str:
    routes = schemas.routes(asked)
    assert isinstance(routes, NoSchema), routes
    return routes.reason


def test_the_schema_id_decides_whatever_was_said_last() -> None:
    schemas = WriterSchemas(feed(), {}, {})
    schemas.learn(metadata("one", "id"), mark(100))
    schemas.learn(metadata("two", "id", "name"), mark(200))
    assert found(schemas, label("one")) == [(("id",), 100)]
    assert found(schemas, label("two", table=None)) == [(("id", "name"), 200)]


def test_without_a_schema_id_each_version_holds_from_when_it_was_written() -> None:
    schemas = WriterSchemas(feed(), {}, {})
    for schema_id, columns, at in (
        ("one", ("id",), 100),
        ("one", ("id",), 150),
        ("two", ("id", "name"), 200),
    ):
        assert schemas.learn(metadata(schema_id, *columns), mark(at)) == ("metadata", None)
    assert found(schemas, label()) == [(("id",), 100), (("id", "name"), 200)]


def test_later_windows_know_what_earlier_ones_have_learnt() -> None:
    first = WriterSchemas(feed(), {}, {})
    first.learn(metadata("one", "id"), mark(100))
    new = first.new_writer_schemas
    stored = {name: Contract.model_validate_json(s.model_dump_json()) for name, s in new.items()}
    second = WriterSchemas(feed(), {}, stored)
    second.learn(metadata("two", "id", "name"), mark(200))
    assert found(second, label("one")) == [(("id",), 100)]
    assert found(second, label()) == [(("id",), 100), (("id", "name"), 200)]
    # Only what is new is to be stored.
    assert all(writer_schema.names == ("id", "name") for writer_schema in second.new_writer_schemas.values())
    third = WriterSchemas(feed(), {}, {**stored, **second.new_writer_schemas})
    third.learn(metadata("two", "id", "name"), mark(200))
    assert third.new_writer_schemas == {}


def test_a_schema_id_keeps_its_meaning() -> None:
    schemas = WriterSchemas(feed(), {}, {})
    schemas.learn(metadata("one", "id"), mark(100))
    reason, detail = schemas.learn(metadata("one", "id", "name"), mark(200))
    assert (reason, detail) == ("schema_contradicts", "one of dbo.items came before with other columns")
    assert found(schemas, label("one")) == [(("id",), 100)]
    assert found(schemas, label()) == [(("id",), 100)]


def test_what_is_stored_is_what_was_written_though_the_feed_states_types() -> None:
    schemas = WriterSchemas(
        feed({"table": "dbo.items", "columns": [{"name": "id", "type": "bigint"}]}), {}, {}
    )
    schemas.learn(metadata("one", "id"), mark(100))
    routes = schemas.routes(label("one"))
    assert isinstance(routes, Versions)
    (route,) = routes.versions
    assert route.writer_schema.columns[0].type == "bigint"
    assert schemas.new_writer_schemas["one"].columns[0].type == "int"


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (label("never"), "metadata_unknown"),
        (label("never", table=None), "metadata_unknown"),
        (label("never", table="others"), "table_not_in_feed"),
        (label("foreign", table=None), "table_not_in_feed"),
        (label(table="others"), "table_not_in_feed"),
        (label(table=None), "metadata_unknown"),
    ],
)
def test_messages_without_a_writer_schema(asked: Label, reason: str) -> None:
    schemas = WriterSchemas(feed(), {}, {})
    schemas.learn(metadata("foreign", "id", table="elsewhere"), mark(100))
    assert why(schemas, asked) == reason


def test_the_contract_serves_messages_without_a_schema_id_and_metadata() -> None:
    contract = Contract.model_validate(
        {"table": "dbo.items", "columns": [{"name": "id", "type": "int", "ordinal": 1, "key_position": 1}]}
    )
    known = {"dbo.items": contract}
    assert found(WriterSchemas(feed(), known, {}), label()) == [(("id",), 0)]
    assert why(WriterSchemas(feed(), known, {}), label("never")) == "metadata_unknown"
    stated = WriterSchemas(feed(ORDERS), {}, {})
    assert found(stated, Label("any", "SALES", "Orders", None)) == [(("no",), 0)]


def test_a_feed_that_lists_no_tables_has_all_that_are_known() -> None:
    contract = Contract.model_validate(
        {"table": "hr.People", "columns": [{"name": "id", "type": "int", "ordinal": 1, "key_position": 1}]}
    )
    schemas = WriterSchemas(feed_of("qlik_messages", []), {"hr.People": contract}, {})
    schemas.learn(metadata(None, "no", table="orders"), mark(100))
    assert found(schemas, Label("any", None, "Orders", None)) == [(("no",), 100)]
    assert found(schemas, Label("qlik.dbo.orders", None, None, None)) == [(("no",), 100)]
    assert found(schemas, Label("qlik.people", None, None, None)) == [(("id",), 0)]
    assert found(schemas, Label("any", "HR", "people", None)) == [(("id",), 0)]
    assert why(schemas, Label("any", None, "elsewhere", None)) == "metadata_unknown"
    # Two tables have the name.
    schemas.learn(metadata(None, "no", table="people"), mark(100))
    assert why(schemas, Label("any", None, "people", None)) == "metadata_unknown"


def test_columns_that_differ_in_their_case_only_are_reported() -> None:
    reason, detail = WriterSchemas(feed(), {}, {}).learn(metadata("one", "id", "Name", "NAME"), mark(100))
    assert (reason, detail) == ("malformed_metadata", "columns differ in their case only: Name, NAME")


@pytest.mark.parametrize(
    ("topic", "table"),
    [
        ("sales.orders", "sales.orders"),
        ("qlik.Sales.Orders", "sales.orders"),
        ("orders", "sales.orders"),
        ("qlik.orders", "sales.orders"),
        ("qlik.items", None),
        ("qlik.hr.items", "hr.items"),
        ("preorders", None),
    ],
)
def test_the_topic_names_the_table_where_it_names_one(topic: str, table: str | None) -> None:
    two = [
        {"table": name, "columns": [{"name": "id", "type": "int"}], "key": ["id"]}
        for name in ("dbo.items", "hr.items")
    ]
    routes = WriterSchemas(feed(ORDERS, *two), {}, {}).routes(label(table=None, topic=topic))
    named = routes.versions[0].writer_schema.table if isinstance(routes, Versions) else None
    assert named == table


@pytest.mark.parametrize(
    ("described", "kind"),
    [
        (("NUMERIC", 0, 38, 10), "decimal(38,10)"),
        (("NUMERIC", 0, 0, 0), "decimal(38,0)"),
        (("NUMERIC", 0, 5, 9), "decimal(5,5)"),
        (("numeric (19,4)", 0, 19, 4), "decimal(19,4)"),
        (("DATETIME", 0, 0, 3), "datetime2(3)"),
        (("DATETIME", 0, 0, 0), "datetime2(6)"),
        (("TIMESTAMP", 0, 0, 9), "datetime2(6)"),
        (("STRING", 36, 0, 0), "varchar(36)"),
        (("WSTRING", 0, 0, 0), "nvarchar(8000)"),
        (("BYTES", 8, 0, 0), "varbinary(8)"),
        (("UINT8", 0, 0, 0), "decimal(20,0)"),
        (("UINT1", 0, 0, 0), "tinyint"),
        (("NCLOB", 0, 0, 0), "nvarchar(max)"),
        (("JSONB", 0, 0, 0), "nvarchar(8000)"),
    ],
)
def test_a_type_of_qliks_as_sql_server_would_say_it(described: tuple[str, int, int, int], kind: str) -> None:
    assert sql_type(*described) == kind
