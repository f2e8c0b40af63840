"""Finds the writer schema of a Qlik message; converts columns of metadata."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from changeledger.cli.decode.reader import feed_of
from changeledger.config.feed import Feed
from changeledger.dialects.qlik_messages.metadata import sql_type
from changeledger.dialects.qlik_messages.schemas import Label, NoSchema, WriterSchemas
from changeledger.dialects.qlik_messages.versions import Mark, Place, Versions
from changeledger.model.contract import Column, Contract

ORDERS = {"table": "sales.orders", "columns": [{"name": "no", "type": "int"}], "key": ["no"]}


def feed(*tables: dict[str, Any]) -> Feed:
    return Feed.model_validate(
        {
            "feed": "golden", "dialect": "qlik_messages", "database": "shop", "connection": "shop",
            "source": {"topics": ["qlik.*"]}, "tables": tables or [{"table": "dbo.items"}],
        }
    )  # fmt: skip


def contract_of(*columns: str, table: str = "dbo.items") -> Contract:
    return Contract(
        table=table,
        columns=tuple(
            Column(name=name, type="int", ordinal=at, key_position=int(at == 1))
            for at, name in enumerate(columns, 1)
        ),
    )


def metadata(schema_id: str | None, *columns: str, table: str = "items", schema: str = "dbo") -> str:
    described = {
        name: {"ordinal": at, "type": "INT4", "primaryKeyPosition": int(at == 1)}
        for at, name in enumerate(columns, 1)
    }
    lineage = {"schema": schema, "table": table}
    return json.dumps(
        {"schemaId": schema_id, "lineage": lineage, "tableStructure": {"tableColumns": described}}
    )


def label(schema_id: str | None = None, table: str | None = "items", topic: str = "any") -> Label:
    return Label(topic, None if table is None else "dbo", table, schema_id)


def learn(schemas: WriterSchemas, text: str, at: int, place: Place = ("any", 0, 0)) -> NoSchema:
    return schemas.learn(text, Mark((*place[:2], at), at, None))


def columns_of(schemas: WriterSchemas, asked: Label) -> list[tuple[str, ...]]:
    routes = schemas.routes(asked)
    assert isinstance(routes, Versions), routes
    return [version.writer_schema.names for version in routes.versions]


def reason(schemas: WriterSchemas, asked: Label) -> str:
    routes = schemas.routes(asked)
    assert isinstance(routes, NoSchema), routes
    return routes.reason


def stored(schemas: WriterSchemas) -> dict[str, Contract]:
    new = schemas.new_writer_schemas
    return {name: Contract.model_validate_json(s.model_dump_json()) for name, s in new.items()}


def test_the_schema_id_decides_whatever_was_said_last() -> None:
    schemas = WriterSchemas(feed(), {}, {})
    learn(schemas, metadata("one", "id"), 100)
    learn(schemas, metadata("two", "id", "name"), 200)
    assert columns_of(schemas, label("one")) == [("id",)]
    assert columns_of(schemas, label("two", table=None)) == [("id", "name")]


def test_without_a_schema_id_a_table_has_versions() -> None:
    schemas = WriterSchemas(feed(), {}, {})
    for schema_id, columns, at in (
        ("one", ("id",), 100),
        ("one", ("id",), 150),
        ("two", ("id", "name"), 200),
    ):
        assert learn(schemas, metadata(schema_id, *columns), at) == ("metadata", None)
    assert columns_of(schemas, label()) == [("id",), ("id", "name")]


def test_later_windows_know_what_earlier_ones_have_learnt() -> None:
    first = WriterSchemas(feed(), {}, {})
    learn(first, metadata("one", "id"), 100)
    second = WriterSchemas(feed(), {}, stored(first))
    learn(second, metadata("two", "id", "name"), 200)
    assert columns_of(second, label("one")) == [("id",)]
    versions = second.routes(label())
    assert isinstance(versions, Versions)
    assert [(version.since, version.writer_schema.names) for version in versions.versions] == [
        (100, ("id",)),
        (200, ("id", "name")),
    ]
    assert versions.marks == {("any", 0): ([100, 200], [0, 1])}
    # Only new writer schemas are stored.
    assert all(writer_schema.names == ("id", "name") for writer_schema in second.new_writer_schemas.values())
    third = WriterSchemas(feed(), {}, {**stored(first), **stored(second)})
    learn(third, metadata("two", "id", "name"), 200)
    assert third.new_writer_schemas == {}


def test_metadata_that_says_nothing_new_is_not_remembered() -> None:
    schemas = WriterSchemas(feed(), {}, {})
    learn(schemas, metadata(None, "id"), 100)
    learn(schemas, metadata(None, "id"), 150)
    learn(schemas, metadata(None, "id"), 150, ("any", 1, 0))
    learn(schemas, metadata(None, "id", "name"), 200)
    learn(schemas, metadata(None, "id"), 250)
    assert [(writer_schema.names, name[-8:]) for name, writer_schema in stored(schemas).items()] == [
        (("id",), "ny 0 100"),
        (("id",), "ny 1 150"),
        (("id", "name"), "ny 0 200"),
        (("id",), "ny 0 250"),
    ]


def test_a_schema_id_keeps_its_meaning() -> None:
    schemas = WriterSchemas(feed(), {}, {})
    learn(schemas, metadata("one", "id"), 100)
    reason, detail = learn(schemas, metadata("one", "id", "name"), 200)
    assert (reason, detail) == ("schema_contradicts", "one of dbo.items came earlier with other columns")
    assert columns_of(schemas, label("one")) == [("id",)]
    assert columns_of(schemas, label()) == [("id",)]


def test_what_is_stored_is_what_was_written_though_the_feed_states_types() -> None:
    schemas = WriterSchemas(
        feed({"table": "dbo.items", "columns": [{"name": "id", "type": "bigint"}]}), {}, {}
    )
    learn(schemas, metadata("one", "id"), 100)
    versions = schemas.routes(label("one"))
    assert isinstance(versions, Versions)
    assert versions.versions[0].writer_schema.columns[0].type == "bigint"
    assert schemas.new_writer_schemas["one"].columns[0].type == "int"


WAITS, OTHERS = "metadata_unknown", "table_not_in_feed"


@pytest.mark.parametrize(
    ("asked", "why", "detail"),
    [
        (
            label("never"),
            WAITS,
            "no metadata for the schema id never yet: publish it to a topic of the feed. If retention has "
            "removed it, stop and resume the task, which then writes it again",
        ),
        (label("never", table=None), WAITS, None),
        (
            label(),
            WAITS,
            "no metadata for dbo.items yet: publish it to a topic of the feed, or state `columns:` and "
            "`key:`",
        ),
        (
            label(table=None, topic="qlik.all"),
            WAITS,
            "neither the topic qlik.all nor its messages name a known table: name the topic schema.table, "
            "have Qlik write the table's names or a schema id, or remove the topic from `topics:`",
        ),
        # The run counts records by these details, for a table that joins the feed later.
        (label("never", table="others"), OTHERS, "dbo.others"),
        (label(table="others"), OTHERS, "dbo.others"),
        (label(table=None, topic="qlik.dbo.others"), OTHERS, "dbo.others"),
        (label("foreign", table=None), OTHERS, "dbo.elsewhere"),
        (label(table=None, topic="qlik.elsewhere"), OTHERS, "dbo.elsewhere"),
        (label(table=None, topic="qlik.attrep_status"), OTHERS, "qlik.attrep_status"),
        (label(table="attrep_status"), OTHERS, "dbo.attrep_status"),
    ],
)
def test_messages_without_a_writer_schema_say_what_they_wait_for_or_are_of(
    asked: Label, why: str, detail: str | None
) -> None:
    schemas = WriterSchemas(feed(), {}, {})
    learn(schemas, metadata("foreign", "id", table="elsewhere"), 100)
    routes = schemas.routes(asked)
    assert isinstance(routes, NoSchema)
    assert routes.reason == why
    assert detail in {None, routes.detail}


@pytest.mark.parametrize(
    ("tables", "why"), [((), OTHERS), (feed({"table": "dbo.attrep_status"}).tables, WAITS)]
)
def test_a_control_table_of_qlik_is_read_only_if_the_feed_lists_it(tables: Any, why: str) -> None:
    routes = WriterSchemas(feed().model_copy(update={"tables": tables}), {}, {}).routes(
        label(table="attrep_status")
    )
    assert isinstance(routes, NoSchema)
    assert routes.reason == why


def test_the_contract_serves_messages_without_a_schema_id_and_metadata() -> None:
    known = {"dbo.items": contract_of("id")}
    assert columns_of(WriterSchemas(feed(), known, {}), label()) == [("id",)]
    assert reason(WriterSchemas(feed(), known, {}), label("never")) == "metadata_unknown"
    stated = WriterSchemas(feed(ORDERS), {}, {})
    in_another_case = Label("any", "SALES", "Orders", None)
    stated.see([in_another_case])
    assert columns_of(stated, in_another_case) == [("no",)]


IN_CASES = ("sales.Orders", "sales.orders")


@pytest.mark.parametrize(
    ("listed", "source_table"),
    [("sales.orders", "sales.orders"), ("sales.Orders", "sales.Orders"), ("SALES.orders", None)],
)
def test_of_tables_that_differ_in_case_one_is_the_feeds(listed: str, source_table: str | None) -> None:
    """Messages name their table by schema id, full name, table name or topic."""
    schemas = WriterSchemas(feed({"table": listed}), {}, {})
    for name in IN_CASES:
        schema, table = name.split(".")
        learn(schemas, metadata(name, f"id of {name}", schema=schema, table=table), 100)
    for name in IN_CASES:
        schema, table = name.split(".")
        asked = [
            Label("any", schema, table, name), Label("any", None, None, name),
            Label("any", schema, table, None),
            Label("any", None, table, None), Label(f"q.{name}", None, None, None),
        ]  # fmt: skip
        for wanted in asked:
            if name == source_table:
                assert columns_of(schemas, wanted) == [(f"id of {name}",)], wanted
            else:
                assert reason(schemas, wanted) == "tables_alike", wanted
    # The topic's name matches neither table's case.
    assert reason(schemas, Label("q.SALES.ORDERS", None, None, None)) == "tables_alike"


@pytest.mark.parametrize(
    ("listed", "so_far", "seen", "read"),
    [
        # Only topics name the tables.
        ("sales.orders", None, IN_CASES, "sales.orders"),
        ("sales.Orders", None, IN_CASES, "sales.Orders"),
        ("SALES.orders", None, IN_CASES, None),
        ("SALES.ORDERS", None, ["sales.Orders"], "sales.Orders"),
        # A later window has only messages of the other table.
        ("sales.orders", "sales.orders", ["sales.Orders"], "sales.orders"),
        ("sales.orders", "sales.Orders", ["sales.Orders"], "sales.Orders"),
    ],
)
def test_topics_that_differ_in_case_are_of_two_tables(
    listed: str, so_far: str | None, seen: Sequence[str], read: str | None
) -> None:
    known = contract_of("no", table=listed).model_copy(update={"source_table": so_far})
    schemas = WriterSchemas(feed({**ORDERS, "table": listed}), {listed: known}, {})
    asked = {name: Label(f"q.{name}", None, None, None) for name in seen}
    schemas.see(asked.values())
    for name, of_name in asked.items():
        if name == read:
            assert columns_of(schemas, of_name) == [("no",)]
        else:
            assert reason(schemas, of_name) == "tables_alike"


def test_names_without_a_schema_that_differ_in_case_are_of_two_tables() -> None:
    schemas = WriterSchemas(feed(ORDERS), {}, {})
    lower, upper = Label("any", None, "orders", None), Label("any", None, "Orders", None)
    schemas.see([upper])
    assert columns_of(schemas, upper) == [("no",)]
    schemas.see([lower, upper])
    assert (columns_of(schemas, lower), reason(schemas, upper)) == ([("no",)], "tables_alike")


def test_a_topic_may_write_its_table_in_another_case_than_metadata() -> None:
    schemas = WriterSchemas(feed({"table": "sales.orders"}), {}, {})
    learn(schemas, metadata(None, "no", schema="sales", table="Orders"), 100)
    lower, upper = (Label(f"q.{name}", None, None, None) for name in ("sales.orders", "sales.Orders"))
    schemas.see([lower])
    assert columns_of(schemas, lower) == [("no",)]
    schemas.see([lower, upper])
    assert (columns_of(schemas, upper), reason(schemas, lower)) == ([("no",)], "tables_alike")


def test_a_table_is_the_one_that_was_read_so_far() -> None:
    columns = [{"name": "id", "type": "int", "ordinal": 1, "key_position": 1}]
    for so_far in IN_CASES:
        contract = {"table": "sales.Orders", "columns": columns, "source_table": so_far}
        schemas = WriterSchemas(
            feed({"table": "sales.Orders"}), {"sales.Orders": Contract.model_validate(contract)}, {}
        )
        for name in IN_CASES:
            asked = Label("any", *name.split("."), None)
            schemas.see([asked])
            if name == so_far:
                assert columns_of(schemas, asked) == [("id",)]
            else:
                assert reason(schemas, asked) == "tables_alike"


def test_a_feed_that_lists_no_tables_has_all_that_are_known() -> None:
    known = {"hr.People": contract_of("id", table="hr.People")}
    schemas = WriterSchemas(feed_of("qlik_messages", []), known, {})
    learn(schemas, metadata(None, "no", table="orders"), 100)
    assert columns_of(schemas, Label("any", None, "Orders", None)) == [("no",)]
    assert columns_of(schemas, Label("qlik.dbo.orders", None, None, None)) == [("no",)]
    assert columns_of(schemas, Label("qlik.people", None, None, None)) == [("id",)]
    assert columns_of(schemas, Label("any", "HR", "people", None)) == [("id",)]
    assert reason(schemas, Label("any", None, "elsewhere", None)) == "metadata_unknown"
    # Two tables have this name.
    learn(schemas, metadata(None, "no", table="people"), 100)
    assert reason(schemas, Label("any", None, "people", None)) == "metadata_unknown"


def test_columns_that_differ_in_their_case_only_are_reported() -> None:
    why = learn(WriterSchemas(feed(), {}, {}), metadata("one", "id", "Name", "NAME"), 100)
    assert why == ("malformed_metadata", "columns differ only in case: Name, NAME")


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
    named = None if isinstance(routes, NoSchema) else routes.versions[0].writer_schema.table
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
