"""Hostile text in place of any name: no decoder or discovery fails, and each record has one disposition.

In a valid message, one name or text is replaced with another. It is the name of a database, schema, table,
column, type or member, or a text in the schema block, images, keys or metadata.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from changeledger.cli.decode import reader
from changeledger.cli.decode.records import Message
from changeledger.config.feed import Feed
from changeledger.kernels.rows import together
from changeledger.stages.normalization import reading
from changeledger.stages.normalization.mask_reading import resolved_alone
from tests.dialects.windows import discovered

TABLE, TOPIC = "dbo.orders", "s.dbo.orders"
HOSTILE = (
    'q"q', "\\", "a\nb", "a\r\nb", "a\0b", "", " ", "\ud83d", "\udc00x", "a.b", "`", "x" * 129, "${x}", "%s",
    "'; DROP TABLE t", "ID", "Note", "\u0131d", "e\u0301", "\x7f", "\u2028", "null", "\ufeff", "\uffff",
    "🙂" * 65, "dbo.orders since 5", "version of dbo.orders since x",
)  # fmt: skip
Path = tuple[str | int, ...]
POSITION = {"commit_lsn": "0000002a:000003b0:0005", "change_lsn": "0000002a:000003b0:0003"}


class Json(NamedTuple):
    """An object that is embedded as JSON text."""

    inner: Any


class Case(NamedTuple):
    """Key and value of a valid message, and the messages that are sent before it."""

    dialect: str
    key: Any
    value: Any
    before: Sequence[Any] = ()


def debezium(*, has_block: bool) -> Case:
    source = {
        "connector": "sqlserver",
        "name": "s",
        "ts_ms": 1786119900883,
        "snapshot": "false",
        "db": "shop",
    }
    source |= {"schema": "dbo", "table": "orders", **POSITION}
    after = {"id": 1, "note": "n", "price": "BGM="}
    event = {"before": after, "after": after, "source": source, "op": "u", "transaction": {"id": "x"}}
    if not has_block:
        return Case("debezium", {"id": 1}, event)
    number = {"type": "int32", "optional": False, "field": "id"}
    decimal = {"scale": "3", "connect.decimal.precision": "18", "__debezium.source.column.type": "DECIMAL"}
    fields = [
        number,
        {"type": "string", "field": "note", "name": "io.debezium.data.Json"},
        {
            "type": "bytes",
            "field": "price",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": decimal,
        },
    ]
    row = {"type": "struct", "fields": fields, "name": "s.dbo.orders.Value", "field": "after"}
    key = {"schema": {"type": "struct", "fields": [number]}, "payload": {"id": 1}}
    return Case("debezium", key, {"schema": {"type": "struct", "fields": [row]}, "payload": event})


def ces(*, as_text: bool) -> Case:
    columns = [("id", "int"), ("note", "nvarchar(50)"), ("price", "decimal(18,3)")]
    row = {"id": "1", "note": "n", "price": "1.5"}
    source = {
        "db": "shop", "schema": "dbo", "tbl": "orders",
        "cols": [{"name": name, "type": kind, "index": at} for at, (name, kind) in enumerate(columns)],
        "pkkey": [{"columnname": "id", "value": "1"}],
        "transaction": {"commitlsn": "0000002A:000003B0:0005", "sequencenumber": 1},
    }  # fmt: skip
    data = {"eventsource": source, "eventrow": {"old": None, "current": Json(row) if as_text else row}}
    value = {
        "specversion": "1.0", "type": "com.microsoft.SQL.CES.DML.V1", "source": "/", "id": "i",
        "logicalid": "g:0000002A000003B00005:00000000000000000001", "time": "2026-08-07T16:25:00.883Z",
        "operation": "INS", "segmentindex": 0, "finalsegment": True, "data": Json(data) if as_text else data,
    }  # fmt: skip
    return Case("ces", None, value)


QLIK_METADATA = {
    "magic": "atMSG", "type": "MD", "message": {
        "schemaId": "s1", "lineage": {"server": "q", "task": "t", "schema": "dbo", "table": "orders"},
        "tableStructure": {"tableColumns": {
            "id": {"ordinal": 1, "type": "INT4", "primaryKeyPosition": 1},
            "note": {"ordinal": 2, "type": "WSTRING", "length": 50},
        }},
        "dataSchema": Json({"type": "record", "name": "Data", "fields": [{"name": "id", "type": "int"}]}),
    },
}  # fmt: skip


def qlik(*, has_id: bool) -> Case:
    headers = {
        "operation": "UPDATE", "changeSequence": "20260807162500880000000000000000005", "changeMask": "02",
        "timestamp": "2026-08-07T16:25:00.880", "streamPosition": "0000002a:000003b0:0005.1",
        "transactionId": "T",
    }  # fmt: skip
    if has_id:
        headers["externalSchemaId"] = "s1"
    rows = {"data": {"id": 1, "note": "n"}, "beforeData": {"id": 1, "note": "m"}}
    value = {"schema": "dbo", "table": "orders", "headers": headers, **rows}
    return Case("qlik_messages", {"id": 1}, value, [QLIK_METADATA])


CASES = {
    "Debezium with a schema block": debezium(has_block=True),
    "Debezium": debezium(has_block=False),
    "CES": ces(as_text=True),
    "CES in objects": ces(as_text=False),
    "Qlik's data by its id": qlik(has_id=True),
    "Qlik's data by its names": qlik(has_id=False),
    "Qlik's metadata": Case("qlik_messages", None, QLIK_METADATA),
}


def paths(node: Any, path: Path = ()) -> Iterator[Path]:
    """Paths of all names and texts. A path that ends with a member's name twice means the name itself."""
    if isinstance(node, Json):
        yield from paths(node.inner, path)
    elif isinstance(node, dict):
        for name, inner in node.items():
            yield (*path, name, name)
            yield from paths(inner, (*path, name))
    elif isinstance(node, list):
        for at, inner in enumerate(node):
            yield from paths(inner, (*path, at))
    elif isinstance(node, str):
        yield path


def mutated(node: Any, path: Path, text: str) -> Any:
    if isinstance(node, Json):
        return Json(mutated(node.inner, path, text))
    if not path:
        return text
    first, *rest = path
    if isinstance(node, list):
        return [mutated(inner, tuple(rest), text) if at == first else inner for at, inner in enumerate(node)]
    if rest == [first]:
        return {text if name == first else name: inner for name, inner in node.items()}
    return {
        name: mutated(inner, tuple(rest), text) if name == first else inner for name, inner in node.items()
    }


def everywhere(node: Any, old: str, text: str) -> Any:
    """Replaces every name and text that equals `old`, as if the column had the name `text`."""
    if isinstance(node, Json):
        return Json(everywhere(node.inner, old, text))
    if isinstance(node, dict):
        return {text if n == old else n: everywhere(inner, old, text) for n, inner in node.items()}
    if isinstance(node, list):
        return [everywhere(inner, old, text) for inner in node]
    return text if node == old else node


def written(node: Any, *, escaped: bool) -> bytes:
    def plain(part: Any) -> Any:
        if isinstance(part, Json):
            return json.dumps(plain(part.inner), ensure_ascii=escaped)
        if isinstance(part, dict):
            return {name: plain(inner) for name, inner in part.items()}
        return [plain(inner) for inner in part] if isinstance(part, list) else part

    return json.dumps(plain(node), ensure_ascii=escaped).encode("utf-8", "surrogatepass")


def outcomes(dialect: str, messages: Sequence[tuple[bytes | None, bytes]], *, listed: bool) -> None:
    """Reads the messages as normalize does, and checks that each has exactly one disposition."""
    raw = [Message(TOPIC, 0, at, None, key, value, []) for at, (key, value) in enumerate(messages)]
    feed = reader.feed_of(dialect, raw)
    if listed:
        stated = feed.model_dump() | {"tables": [{"table": TABLE}], "source": {"topics": ["*"]}}
        feed = Feed.model_validate(stated)
    discovery = discovered(raw, feed)
    # Schemas are stored for later windows, so PostgreSQL must accept their text.
    for name, schema in (*discovery.writer_schemas.items(), *discovery.avro_schemas.items()):
        stored = name + (schema if isinstance(schema, str) else schema.model_dump_json())
        assert "\0" not in stored.encode().decode(), "no text of PostgreSQL's"
    inputs = reading.inputs(discovery.records, reading.TableKnowledge({}, resolved_alone))
    seen: Counter[int] = Counter()
    for table in (*inputs, reading.Input(None, None, together(discovery.others))):
        if table.contract is not None:
            table.contract.model_dump_json()
        rows = table.decoded.collected()
        rows.validate(full=True)
        for row in rows.to_pylist():
            seen[row["source_position"]["offset"]] += 1
            is_bad = row["disposition"] == "quarantined"
            assert not is_bad or (row["reason"] and row["detail"] is not None), row
    assert seen == Counter(range(len(messages))), "each record has exactly one disposition"


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_hostile_text_in_place_of_a_name(name: str, data: st.DataObject) -> None:
    case = CASES[name]
    text, escaped = data.draw(st.sampled_from(HOSTILE)), data.draw(st.booleans())
    key, value = case.key, case.value
    if data.draw(st.booleans(), "everywhere"):
        old = data.draw(st.sampled_from(["id", "note", "price", "dbo", "orders", "s1"]))
        key, value = everywhere(key, old, text), everywhere(value, old, text)
    elif key is not None and data.draw(st.booleans(), "in the key"):
        key = mutated(key, data.draw(st.sampled_from(list(paths(key)))), text)
    else:
        value = mutated(value, data.draw(st.sampled_from(list(paths(value)))), text)
    mutant = (key and written(key, escaped=escaped), written(value, escaped=escaped))
    messages = [(None, written(message, escaped=True)) for message in case.before]
    if data.draw(st.booleans(), "beside a valid one"):
        messages.append((case.key and written(case.key, escaped=True), written(case.value, escaped=True)))
    outcomes(case.dialect, [*messages, mutant], listed=data.draw(st.booleans(), "listed"))
