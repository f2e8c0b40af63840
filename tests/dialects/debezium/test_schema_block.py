"""Finds tables and columns from sample messages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changeledger.dialects.debezium.field_types import column_type
from changeledger.dialects.debezium.names import own_database
from changeledger.dialects.debezium.schema_block import Sample, named_columns, of_tables, table_facts
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ContractError
from tests.dialects.debezium.decoding import feed

FEED = feed({"table": "dbo.t"}, {"table": "dbo.u"})


def sample(table: str, after: dict[str, Any] | None, key: Any = None, db: str = "one") -> Sample:
    event = {"op": "c", "source": {"schema": "dbo", "table": table, "db": db}, "after": after}
    return Sample("s.dbo.t", None if key is None else json.dumps(key).encode(), json.dumps(event).encode())


def columns(contract: Contract | None) -> list[tuple[str, int]] | None:
    return None if contract is None else [(c.name, c.key_position) for c in contract.columns]


def test_names_are_one_name_in_every_case() -> None:
    samples = [sample("t", {"id": 1, "Note": ""}, {"ID": 1}), sample("t", {"ID": 1, "note": "", "b": 2})]
    assert columns(named_columns(samples, "dbo.t")) == [("id", 1), ("Note", 0), ("b", 0)]


@pytest.mark.parametrize("after", [{}, None])
def test_images_without_members_name_no_columns(after: dict[str, Any] | None) -> None:
    assert named_columns([sample("t", after, {"id": 1})], "dbo.t") is None


def test_a_topic_can_have_several_tables() -> None:
    topics = table_facts(
        of_tables([sample("t", {"id": 1}), sample("U", {"x": 1}), sample("others", {"y": 1})], FEED)
    )
    assert {table: facts.names for table, facts in topics["s.dbo.t"].items()} == {
        "dbo.t": ("id",),
        "dbo.U": ("x",),
    }


def test_a_table_is_read_by_its_contract_as_the_messages_spell_it() -> None:
    contract = Contract(
        table="dbo.t",
        columns=(
            Column(name="ID", type="int", ordinal=1, key_position=1),
            Column(name="Note", type="xml", ordinal=2),
        ),
    )
    read = {
        names: columns(
            table_facts(of_tables([sample("t", dict.fromkeys(names))], FEED))["s.dbo.t"]["dbo.t"].read_by(
                contract
            )
        )
        for names in (("id", "note"), ("ID", "Note"), ("ID", "id"))
    }
    # None: the contract's own names apply.
    assert read == {("id", "note"): [("id", 1), ("note", 0)], ("ID", "Note"): None, ("ID", "id"): None}


@pytest.mark.parametrize("second", ["ID", "\u0131d"])
def test_of_columns_alike_a_schema_block_teaches_the_first(second: str) -> None:
    fields = [{"type": "int32", "field": name, "optional": False} for name in ("id", second)]
    row = {"type": "struct", "field": "after", "fields": fields}
    message = {
        "schema": {"type": "struct", "fields": [row]},
        "payload": {"op": "c", "source": {"schema": "dbo", "table": "t"}, "after": {"id": 1, second: 2}},
    }
    topics = table_facts(of_tables([Sample("s.dbo.t", b'{"id": 1}', json.dumps(message).encode())], FEED))
    assert columns(topics["s.dbo.t"]["dbo.t"].columns) == [("id", 1)]


def test_the_databases_are_those_of_the_feeds_tables() -> None:
    samples = [sample("t", {}, db="two"), sample("others", {}, db="three"), sample("others", {}, db="three")]
    assert own_database(of_tables(samples, FEED), [], FEED, {}) == ("two", False, "two")


def test_a_field_of_no_lake_type_is_refused() -> None:
    field = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "x"}}
    with pytest.raises((ValueError, ContractError)):
        column_type(field)


@pytest.mark.parametrize(("scale", "kind"), [({"scale": "3"}, "datetimeoffset(3)"), ({}, "datetimeoffset")])
def test_the_sources_own_type_has_the_digits_of_a_datetimeoffset(scale: dict[str, str], kind: str) -> None:
    declared = {"type": "DATETIMEOFFSET", "length": "30", **scale}
    parameters = {f"__debezium.source.column.{name}": value for name, value in declared.items()}
    name = "io.debezium.time.ZonedTimestamp"
    assert column_type({"type": "string", "name": name, "parameters": parameters}).sql_type == kind
