"""Which writer schema each message of a window has, and what its metadata says.

`facts` finds in a batch the labels of data, each once, and all metadata messages; `merged` puts those of all
batches together, and `discover` makes of them what routes and decodes the window's messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.feed import Feed
from changeledger.dialects.qlik_messages import avro
from changeledger.dialects.qlik_messages.avro import Schemas
from changeledger.dialects.qlik_messages.message import METADATA
from changeledger.dialects.qlik_messages.schemas import Label, TableRecords, WriterSchemas
from changeledger.kernels import json_text
from changeledger.kernels.arrow import numbers, valid
from changeledger.kernels.json_text import UNREADABLE, Members, NotJson, Token
from changeledger.model.contract import Contract

# Of data a row for each label; of metadata each message, its text and when it was written.
FACTS = pa.schema(
    [
        ("topic", pa.string()),
        ("schema", pa.string()),
        ("table", pa.string()),
        ("schema_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("written_at", pa.int64()),
        ("metadata", pa.string()),
    ]
)
Place = tuple[str, int, int]


class Address(NamedTuple):
    """What a message says of itself."""

    is_metadata: bool = False
    schema: str | None = None
    table: str | None = None
    schema_id: str | None = None


class _Headers(msgspec.Struct, gc=False):
    operation: str | None = None
    externalSchemaId: str | None = None  # noqa: N815 - as Qlik writes it


class _Body(msgspec.Struct, gc=False):
    schema: str | None = None
    table: str | None = None
    headers: _Headers | None = None
    tableStructure: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815


class _Message(_Body, gc=False):
    type: str | None = None
    messageSchemaId: str | None = None  # noqa: N815
    message: _Body | None = None


_DECODE = msgspec.json.Decoder(_Message).decode


@dataclass(frozen=True)
class Discovery:
    """Every message of a window is of one of `tables`, or of none for a reason.

    `labels`: by what messages say the numbers of their `tables`, one for each span of time. `topics`: the
    same where all data of a topic has one label's. `reasons`: why messages have none. `metadata`: what became
    of each metadata message, and why. `new_writer_schemas`: writer schemas to be remembered.
    """

    tables: Sequence[TableRecords]
    labels: Mapping[Label, Sequence[int]]
    topics: Mapping[str, Sequence[int]]
    reasons: Mapping[Label, str]
    metadata: Mapping[Place, tuple[str, str | None]]
    new_writer_schemas: Mapping[str, Contract]
    avro_schemas: Schemas


def address(value: bytes | None) -> Address:
    """Nothing where a message is none."""
    if value is None:
        return Address()
    try:
        message = _DECODE(value)
    except UNREADABLE:
        return single_address(value)
    body = message.message or message
    headers = body.headers
    schema_id = None if headers is None else headers.externalSchemaId
    if message.type is not None:
        is_metadata = message.type.upper() in METADATA
    else:
        has_columns = bytes(body.tableStructure) != b"null"
        is_metadata = has_columns and (headers is None or headers.operation is None)
    return Address(
        is_metadata, body.schema, body.table, message.messageSchemaId if schema_id is None else schema_id
    )


def single_address(value: bytes) -> Address:
    """As `address`, member by member: of a message that is not as usual."""
    try:
        outer = json_text.members(value)
        inner = _object(outer.get("message"))
        body = outer if inner is None else inner
        headers = _object(body.get("headers")) or {}
        named = {name: json_text.text(body.get(name)) for name in ("schema", "table", "tableStructure")}
        kind, own_id = json_text.text(outer.get("type")), json_text.text(outer.get("messageSchemaId"))
        operation, schema_id = (json_text.text(headers.get(n)) for n in ("operation", "externalSchemaId"))
    except (NotJson, *UNREADABLE):
        return Address()
    by_content = named["tableStructure"] is not None and operation is None
    is_metadata = by_content if kind is None else kind.upper() in METADATA
    return Address(is_metadata, named["schema"], named["table"], own_id if schema_id is None else schema_id)


def _object(token: Token | None) -> Members | None:
    return None if token is None or bytes(token) == b"null" else json_text.members(token)


def facts(raw: pa.RecordBatch, schemas: Schemas) -> pa.RecordBatch:
    """The labels and the metadata of a batch (`FACTS`). `schemas`: the Avro schemas of the whole window."""
    found: dict[Label, None] = {}
    said: list[dict[str, Any]] = []
    topics, (values, _) = raw.column("topic").to_pylist(), avro.in_json(raw, schemas)
    for at, (topic, value) in enumerate(zip(topics, values, strict=True)):
        one = address(value)
        label = Label(topic, *one[1:])
        if not one.is_metadata:
            found[label] = None
            continue
        place = {name: raw.column(name)[at].as_py() for name in ("partition", "offset")}
        text = (value or b"").decode(errors="replace")
        written_at = int(_written_at(raw.slice(at, 1))[0])
        said.append({**label._asdict(), **place, "written_at": written_at, "metadata": text})
    return _facts(found, said)


def schemas_in(found: pa.RecordBatch) -> dict[str, str]:
    """The Avro schemas that the metadata among merged facts has, by name: data is read by them."""
    texts = found.column("metadata").drop_null().to_pylist()
    return avro.schemas_in([text.encode() for text in texts])


def merged(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The facts of all parts of a window together; they do not depend on how it was cut."""
    rows = pa.Table.from_batches(parts, FACTS).to_pylist()
    said = [row for row in rows if row["metadata"] is not None]
    return _facts({_label(row): None for row in rows if row["metadata"] is None}, said)


def _label(row: Mapping[str, Any]) -> Label:
    return Label(row["topic"], row["schema"], row["table"], row["schema_id"])


def _facts(labels: Mapping[Label, None], said: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Labels in an order of their own, then metadata in the order in which it was written."""
    in_order = sorted(labels, key=lambda one: [text or "" for text in one])
    later = sorted(said, key=lambda r: (r["written_at"], r["topic"], r["partition"], r["offset"]))
    return pa.RecordBatch.from_pylist([*(one._asdict() for one in in_order), *later], FACTS)


def _written_at(raw: pa.RecordBatch) -> Any:
    """When messages were written; of one without a time, its offset says what came before it."""
    written = raw.column("timestamp")
    return np.where(valid(written), numbers(written), numbers(raw.column("offset")))


def discover(
    found: pa.RecordBatch,
    feed: Feed,
    contracts: Mapping[str, Contract],
    known: Mapping[str, Contract],
    avro_schemas: Schemas,
) -> Discovery:
    """What the merged facts of a window say.

    `contracts`: those of earlier windows, by table; `known`: writer schemas that earlier windows have found.
    """
    schemas = WriterSchemas(feed, contracts, known)
    rows = found.to_pylist()
    said = {
        (row["topic"], row["partition"], row["offset"]): schemas.learn(row["metadata"], row["written_at"])
        for row in rows
        if row["metadata"] is not None
    }
    of_label = {_label(row): schemas.routes(_label(row)) for row in rows if row["metadata"] is None}
    reasons = {label: one for label, one in of_label.items() if isinstance(one, str)}
    routed = {label: tuple(one) for label, one in of_label.items() if not isinstance(one, str)}
    distinct = {one for records in routed.values() for one in records}
    tables = sorted(distinct, key=lambda one: (one.table, one.since))
    number = {one: at for at, one in enumerate(tables)}
    labels = {label: [number[one] for one in records] for label, records in routed.items()}
    topics, new = _topics(of_label, labels), schemas.new_writer_schemas
    return Discovery(tables, labels, topics, reasons, said, new, avro_schemas)


def _topics(of_label: Mapping[Label, Any], labels: Mapping[Label, Sequence[int]]) -> dict[str, Sequence[int]]:
    """The usual topics, of one table with one writer schema: nobody has to look into their messages again."""
    found: dict[str, set[tuple[int, ...] | None]] = {}
    for label in of_label:
        found.setdefault(label.topic, set()).add(tuple(labels[label]) if label in labels else None)
    alone = {topic: next(iter(one)) for topic, one in found.items() if len(one) == 1}
    return {topic: one for topic, one in alone.items() if one is not None}


def routes(raw: pa.RecordBatch, plan: Discovery) -> pa.Int32Array:
    """For each message the number of its `tables`; NULL for those of no table."""
    simple = {topic: one[0] for topic, one in plan.topics.items() if len(one) == 1}
    topics = raw.column("topic")
    at = pc.index_in(topics, value_set=pa.array(list(simple), pa.string()))
    found = pa.array(list(simple.values()), pa.int32()).take(at).to_pylist()
    written_at, (values, _) = _written_at(raw), avro.in_json(raw, plan.avro_schemas)
    names, offsets, partitions = (raw.column(n).to_pylist() for n in ("topic", "offset", "partition"))
    for row in np.flatnonzero(~valid(at)).tolist():
        one = address(values[row])
        if not one.is_metadata:
            records = plan.labels.get(Label(names[row], *one[1:]), ())
            found[row] = _in_time(records, int(written_at[row]), plan)
    if plan.metadata:
        for row, place in enumerate(zip(names, partitions, offsets, strict=True)):
            if place in plan.metadata:
                found[row] = None
    return pa.array(found, pa.int32())


def _in_time(records: Sequence[int], written_at: int, plan: Discovery) -> int | None:
    for number in records:
        one = plan.tables[number]
        if one.since <= written_at and (one.until is None or written_at < one.until):
            return number
    return None
