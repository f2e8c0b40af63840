"""Finds the writer schema of each message of a window, and what its metadata says.

`facts` collects the distinct labels of a batch's data and all of its metadata messages, `merged` combines
those of all batches, and `discover` derives from them what routes and decodes the window's messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.feed import Feed
from changeledger.dialects.kernel import EarlierWindows
from changeledger.dialects.qlik_messages import addresses, avro
from changeledger.dialects.qlik_messages.addresses import address
from changeledger.dialects.qlik_messages.avro import Schemas
from changeledger.dialects.qlik_messages.schemas import Label, NoSchema, WriterSchemas
from changeledger.dialects.qlik_messages.versions import DataMessage, Mark, Place, Versions
from changeledger.kernels.arrow import valid
from changeledger.model.contract import Contract

# A row for each label of data, and one for each metadata message, with its text and when it was written.
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


class TableRecords(NamedTuple):
    """Messages of one writer schema."""

    writer_schema: Contract

    @property
    def table(self) -> str:
        return self.writer_schema.table

    @property
    def source_table(self) -> str:
        return self.writer_schema.source_table or self.table

    @property
    def source_database(self) -> None:
        """Always None: Qlik's messages do not state it."""


class Route(NamedTuple):
    """Where messages with one label go: the number of the table for each version."""

    tables: Sequence[int]
    versions: Versions


@dataclass(frozen=True)
class Discovery:
    """Every message of a window belongs to one of `tables`, or to none for a reason.

    * `routes`: where messages go, by their label.
    * `topics`: the number of a topic's only table.
    * `reasons`: why messages have no table, by their label.
    * `metadata`: the outcome of each metadata message.
    * `new_writer_schemas`: the writer schemas to remember.
    """

    tables: Sequence[TableRecords]
    routes: Mapping[Label, Route]
    topics: Mapping[str, int]
    reasons: Mapping[Label, NoSchema]
    metadata: Mapping[Place, NoSchema]
    new_writer_schemas: Mapping[str, Contract]
    avro_schemas: Schemas


def facts(raw: pa.RecordBatch, schemas: Schemas) -> pa.RecordBatch:
    """Returns labels and metadata of a batch (`FACTS`). `schemas` are the Avro schemas of the window."""
    labels: dict[Label, None] = {}
    said: list[dict[str, Any]] = []
    topics, (values, _) = raw.column("topic").to_pylist(), avro.in_json(raw, schemas)
    for at, (topic, value) in enumerate(zip(topics, values, strict=True)):
        message_address = address(value)
        label = Label(topic, *message_address[1:])
        if not message_address.is_metadata:
            labels[label] = None
            continue
        place = {name: raw.column(name)[at].as_py() for name in ("partition", "offset")}
        text = (value or b"").decode(errors="replace")
        written_at = _written_at(raw)[at].as_py()
        said.append({**label._asdict(), **place, "written_at": written_at, "metadata": text})
    return _facts(labels, said)


def schemas_in(merged_facts: pa.RecordBatch) -> dict[str, str]:
    """Returns the Avro schemas in the metadata of merged facts, by name. Data is read with them."""
    texts = merged_facts.column("metadata").drop_null().to_pylist()
    return avro.schemas_in([text.encode() for text in texts])


def merged(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Combines the facts of all parts of a window. The result does not depend on how it was cut."""
    rows = pa.Table.from_batches(parts, FACTS).to_pylist()
    said = [row for row in rows if row["metadata"] is not None]
    return _facts({_label(row): None for row in rows if row["metadata"] is None}, said)


def _label(row: Mapping[str, Any]) -> Label:
    return Label(row["topic"], row["schema"], row["table"], row["schema_id"])


def _facts(labels: Mapping[Label, None], said: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Returns the labels, sorted, and then metadata in the order in which it was written."""
    in_order = sorted(labels, key=lambda label: [text or "" for text in label])
    later = sorted(said, key=lambda r: (r["written_at"] or 0, r["topic"], r["partition"], r["offset"]))
    return pa.RecordBatch.from_pylist([*(label._asdict() for label in in_order), *later], FACTS)


def _written_at(raw: pa.RecordBatch) -> pa.Int64Array:
    """Returns the times of the Kafka messages, in microseconds since 1970."""
    return raw.column("timestamp").cast(pa.timestamp("us", "UTC")).view(pa.int64())


def discover(merged_facts: pa.RecordBatch, feed: Feed, known: EarlierWindows) -> Discovery:
    """Finds tables, routes and new writer schemas of a window from its merged facts."""
    schemas = WriterSchemas(feed, known.contracts, known.writer_schemas)
    rows, said = merged_facts.to_pylist(), {}
    for row in rows:
        if row["metadata"] is not None:
            place = (row["topic"], row["partition"], row["offset"])
            said[place] = schemas.learn(row["metadata"], Mark(place, row["written_at"], None))
    labels = [_label(row) for row in rows if row["metadata"] is None]
    schemas.see(labels)
    of_label = {label: schemas.routes(label) for label in labels}
    reasons = {label: reason for label, reason in of_label.items() if isinstance(reason, NoSchema)}
    routed = {label: versions for label, versions in of_label.items() if isinstance(versions, Versions)}
    since: dict[Contract, int] = {}
    for version in (version for versions in routed.values() for version in versions.versions):
        since[version.writer_schema] = min(version.since, since.get(version.writer_schema, version.since))
    # A table's contract grows version by version.
    tables = sorted(since, key=lambda schema: (schema.table, since[schema], schema.names))
    number = {schema: at for at, schema in enumerate(tables)}
    routes = {
        label: Route([number[version.writer_schema] for version in versions.versions], versions)
        for label, versions in routed.items()
    }
    records, topics = [TableRecords(schema) for schema in tables], _topics(of_label, routes)
    new = schemas.new_writer_schemas
    return Discovery(records, routes, topics, reasons, said, new, known.avro_schemas)


def _topics(labels: Iterable[Label], routes: Mapping[Label, Route]) -> dict[str, int]:
    """Returns the table numbers of the usual topics, which have one table with one writer schema.

    Their messages need not be read again to be routed.
    """
    tables_by_topic: dict[str, set[int | None]] = {}
    for label in labels:
        tables = routes[label].tables if label in routes else [None]
        tables_by_topic.setdefault(label.topic, set()).update(tables)
    alone = {topic: next(iter(tables)) for topic, tables in tables_by_topic.items() if len(tables) == 1}
    return {topic: number for topic, number in alone.items() if number is not None}


def routes(raw: pa.RecordBatch, plan: Discovery) -> pa.Int32Array:
    """Returns for each message the number of its table in `tables`, or NULL if it has none."""
    topics = raw.column("topic")
    at = pc.index_in(topics, value_set=pa.array(list(plan.topics), pa.string()))
    table_numbers = pa.array(list(plan.topics.values()), pa.int32()).take(at).to_pylist()
    names, partitions, offsets = (raw.column(n).to_pylist() for n in ("topic", "partition", "offset"))
    if not valid(at).all():
        written_at, (values, _) = _written_at(raw).to_pylist(), avro.in_json(raw, plan.avro_schemas)
        for row in np.flatnonzero(~valid(at)).tolist():
            place = names[row], partitions[row], offsets[row]
            table_numbers[row] = _table_of(values[row], place, written_at[row], plan)
    if plan.metadata:
        for row, place in enumerate(zip(names, partitions, offsets, strict=True)):
            if place in plan.metadata:
                table_numbers[row] = None
    return pa.array(table_numbers, pa.int32())


def _table_of(value: bytes | None, place: Place, written_at: int | None, plan: Discovery) -> int | None:
    said = address(value)
    route = None if said.is_metadata else plan.routes.get(Label(place[0], *said[1:]))
    if route is None:
        return None
    if len(set(route.tables)) == 1:
        return route.tables[0]
    return route.tables[route.versions.number(DataMessage(place, written_at, addresses.contents(value)))]
