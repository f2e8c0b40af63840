"""What sample messages tell of tables, on the driver."""

from __future__ import annotations

import json
from typing import Any

import pytest

from changeledger.config import Feed
from changeledger.contract import Column, Contract
from changeledger.dialects.base import Sample
from changeledger.dialects.debezium_schema import column_type, database_of, discover, named_columns
from changeledger.errors import ContractError

FEED = Feed.model_validate(
    {
        "feed": "f", "dialect": "debezium", "database": "d", "connection": "none",
        "source": {"topics": ["*"]}, "tables": [{"table": "dbo.t"}, {"table": "dbo.u"}],
    }
)  # fmt: skip


def sample(table: str, after: dict[str, Any] | None, key: Any = None, db: str = "one") -> Sample:
    event = {"op": "c", "source": {"schema": "dbo", "table": table, "db": db}, "after": after}
    return Sample("s.dbo.t", None if key is None else json.dumps(key).encode(), json.dumps(event).encode())


def columns(contract: Contract | None) -> list[tuple[str, int]] | None:
    return contract and [(c.name, c.key_position) for c in contract.columns]


def test_names_are_one_name_in_every_case() -> None:
    told = [sample("t", {"id": 1, "Note": ""}, {"ID": 1}), sample("t", {"ID": 1, "note": "", "b": 2})]
    assert columns(named_columns(told, "dbo.t")) == [("id", 1), ("Note", 0), ("b", 0)]


@pytest.mark.parametrize("after", [{}, None])
def test_images_without_members_tell_no_columns(after: dict[str, Any] | None) -> None:
    assert named_columns([sample("t", after, {"id": 1})], "dbo.t") is None


def test_a_topic_tells_each_of_its_tables() -> None:
    found = discover([sample("t", {"id": 1}), sample("U", {"x": 1}), sample("others", {"y": 1})], FEED)
    assert {table: told.names for table, told in found["s.dbo.t"].items()} == {
        "dbo.t": ("id",),
        "dbo.u": ("x",),
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
            discover([sample("t", dict.fromkeys(names))], FEED)["s.dbo.t"]["dbo.t"].read_by(contract)
        )
        for names in (("id", "note"), ("ID", "Note"), ("ID", "id"))
    }
    # None: as the contract has them.
    assert read == {("id", "note"): [("id", 1), ("note", 0)], ("ID", "Note"): None, ("ID", "id"): None}


@pytest.mark.parametrize("second", ["ID", "\u0131d"])
def test_a_schema_block_that_names_a_column_twice_tells_none(second: str) -> None:
    fields = [{"type": "int32", "field": name, "optional": False} for name in ("id", second)]
    row = {"type": "struct", "field": "after", "fields": fields}
    message = {
        "schema": {"type": "struct", "fields": [row]},
        "payload": {"op": "c", "source": {"schema": "dbo", "table": "t"}, "after": {"id": 1, second: 2}},
    }
    told = discover([Sample("s.dbo.t", b'{"id": 1}', json.dumps(message).encode())], FEED)
    assert told["s.dbo.t"]["dbo.t"].shape is None


def test_most_samples_tell_the_database() -> None:
    told = [sample("t", {}, db=db) for db in ("one", "two", "two")]
    assert database_of([*told, *(sample("others", {}, db="three") for _ in range(9))], FEED) == "two"


def test_a_field_of_no_lake_type_is_refused() -> None:
    field = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "x"}}
    with pytest.raises((ValueError, ContractError)):
        column_type(field)


@pytest.mark.parametrize(("scale", "told"), [({"scale": "3"}, "datetimeoffset(3)"), ({}, "datetimeoffset")])
def test_the_sources_own_type_tells_the_digits_of_a_datetimeoffset(scale: dict[str, str], told: str) -> None:
    own = {"type": "DATETIMEOFFSET", "length": "30", **scale}
    parameters = {f"__debezium.source.column.{name}": value for name, value in own.items()}
    name = "io.debezium.time.ZonedTimestamp"
    assert column_type({"type": "string", "name": name, "parameters": parameters}) == told
