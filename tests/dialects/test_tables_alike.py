"""Tables whose names differ only in case stay different tables, within a window and across windows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from changeledger.cli.decode.records import Message
from changeledger.kernels.rows import together
from changeledger.model.contract import Contract
from changeledger.stages.normalization import reading
from changeledger.stages.normalization.mask_reading import resolved_alone
from tests.dialects.windows import discovered, feed

NAMES = ("dbo.Orders", "dbo.orders")
SCHEMAS = ("dbo.orders", "DBO.orders")
POSITION = {"commit_lsn": "0000002a:000003b0:0005", "change_lsn": "0000002a:000003b0:0003"}


class Sent(NamedTuple):
    """Messages of a table. Each row states the name of its table."""

    topic: str
    values: Sequence[Any]


def debezium(name: str) -> Sent:
    schema, table = name.split(".")
    source = {"connector": "sqlserver", "ts_ms": 1786119900883, "schema": schema, "table": table, **POSITION}
    event = {"before": None, "after": {"id": 1, "of": name}, "source": source, "op": "c"}
    fields = [{"type": "int32", "field": "id", "optional": False}, {"type": "string", "field": "of"}]
    block = {"type": "struct", "fields": [{"type": "struct", "field": "after", "fields": fields}]}
    return Sent(f"s.{name}", [{"schema": block, "payload": event}, None])


def ces(name: str) -> Sent:
    schema, table = name.split(".")
    columns = [("id", "int"), ("of", "nvarchar(50)")]
    source = {
        "schema": schema, "tbl": table, "pkkey": [{"columnname": "id", "value": "1"}],
        "cols": [{"name": n, "type": kind, "index": at} for at, (n, kind) in enumerate(columns)],
    }  # fmt: skip
    data = {"eventsource": source, "eventrow": {"old": None, "current": {"id": "1", "of": name}}}
    value = {
        "type": "com.microsoft.SQL.CES.DML.V1", "time": "2026-08-07T16:25:00.883Z", "operation": "INS",
        "logicalid": "g:0000002A000003B00005:00000000000000000001", "data": data,
    }  # fmt: skip
    return Sent("changes", [value])


def qlik(name: str) -> Sent:
    schema, table = name.split(".")
    structure = {
        "id": {"ordinal": 1, "type": "INT4", "primaryKeyPosition": 1},
        "of": {"ordinal": 2, "type": "WSTRING", "length": 50},
    }
    lineage = {"schema": schema, "table": table}
    metadata = {"schemaId": name, "lineage": lineage, "tableStructure": {"tableColumns": structure}}
    headers = {"operation": "REFRESH"}
    row = {"data": {"id": 1, "of": name}, "beforeData": None}
    by_name = {"schema": schema, "table": table, "headers": headers, **row}
    by_id = {"headers": headers | {"externalSchemaId": name}, **row}
    return Sent(f"q.{name}", [metadata, by_name, by_id, {"headers": headers, **row}])


SENT = {"debezium": debezium, "ces": ces, "qlik_messages": qlik}


class Known(NamedTuple):
    """Contracts and writer schemas that a window leaves for the next one."""

    contracts: Mapping[str, Contract]
    schemas: Mapping[str, Contract]


NOTHING = Known({}, {})


def window(dialect: str, listed: str, names: Sequence[str], known: Known) -> tuple[list[Any], Known]:
    """Reads messages of tables with these names in one window.

    Returns for each message the table and row of its change, or else the reason or disposition; and what the
    next window knows.
    """
    sent = [SENT[dialect](name) for name in names]
    raw = [
        Message(batch.topic, 0, at, None, b'{"id": 1}', value and json.dumps(value).encode(), [])
        for at, (batch, value) in enumerate((batch, value) for batch in sent for value in batch.values)
    ]
    discovery = discovered(raw, feed(dialect, {"table": listed}), *known)
    inputs = reading.inputs(discovery.records, reading.TableKnowledge(known.contracts, resolved_alone))
    rows: dict[int, Any] = {}
    for table in (*inputs, reading.Input(None, None, together(discovery.others))):
        for row in table.decoded.collected().to_pylist():
            is_change = row["disposition"] == "change"
            what = (table.table, row["after"]["of"]) if is_change else row["reason"] or row["disposition"]
            rows[row["source_position"]["offset"]] = what
    contracts = {table.contract.table: table.contract for table in inputs if table.contract is not None}
    kept = {
        name: Contract.model_validate_json(contract.model_dump_json()) for name, contract in contracts.items()
    }
    return [rows[at] for at in range(len(raw))], Known(
        {**known.contracts, **kept}, {**known.schemas, **discovery.writer_schemas}
    )


def of(dialect: str, listed: str, name: str, source_table: str | None) -> list[Any]:
    """Expected results of a table's messages if the feed reads `source_table`."""
    sent = SENT[dialect](name).values
    if name == source_table:
        expected = {"metadata": "metadata", "none": "tombstone"}
    else:
        expected = {"metadata": "metadata", "none": "tombstone", "data": "tables_alike"}
    kinds = ["none" if value is None else "metadata" if "lineage" in value else "data" for value in sent]
    return [expected.get(kind, (listed, name)) for kind in kinds]


@pytest.mark.parametrize("dialect", SENT)
@pytest.mark.parametrize("names", [NAMES, SCHEMAS])
def test_of_two_tables_the_feeds_is_read_and_the_other_refused(dialect: str, names: tuple[str, str]) -> None:
    for listed in names:
        results, _ = window(dialect, listed, names, NOTHING)
        assert results == [what for name in names for what in of(dialect, listed, name, listed)]


@pytest.mark.parametrize("dialect", SENT)
def test_of_two_tables_none_is_read_that_could_be_either(dialect: str) -> None:
    results, _ = window(dialect, "dbo.ORDERS", NAMES, NOTHING)
    assert results == [what for name in NAMES for what in of(dialect, "dbo.ORDERS", name, None)]


@pytest.mark.parametrize("dialect", SENT)
@pytest.mark.parametrize("listed", ["dbo.Orders", "dbo.ORDERS"])
def test_the_only_table_is_read_in_whatever_case_and_no_other_later(dialect: str, listed: str) -> None:
    results, known = window(dialect, listed, ["dbo.orders"], NOTHING)
    assert results == of(dialect, listed, "dbo.orders", "dbo.orders")
    for names in (["dbo.Orders"], NAMES, ["dbo.orders"]):
        results, known = window(dialect, listed, names, known)
        assert results == [what for name in names for what in of(dialect, listed, name, "dbo.orders")]
