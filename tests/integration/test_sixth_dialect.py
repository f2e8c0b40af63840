"""CONTRIBUTING's four steps are all that a new dialect needs: a toy dialect goes through all stages.

Its messages are lines of text: `<commit LSN as 20 hex digits>,<I, U or D>,<id>,<name>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from changeledger.config import sources
from changeledger.config.feed import Feed
from changeledger.config.sources import KafkaTopics
from changeledger.dialects.interface import MessageDialect
from changeledger.dialects.kernel import EarlierWindows, MessageKernel, ResolvedSchema
from changeledger.dialects.messages import message_rows
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.registry import DIALECTS
from changeledger.kernels import changes, images, lsn
from changeledger.kernels.arrow import Bools
from changeledger.kernels.changes import Changes
from changeledger.kernels.images import Image
from changeledger.model import change
from changeledger.model.contract import Column, Contract
from sourcelab.messages import Message, produce
from sourcelab.services import KafkaBroker
from tests.integration.line import message_feed, run, window
from tests.stored_rows import stored_rows

pytestmark = pytest.mark.integration

COLUMNS = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, key_position=1),
        Column(name="name", type="nvarchar(20)", ordinal=2),
    ),
)
OPERATIONS = {"I": change.INSERT, "U": change.UPDATE, "D": change.DELETE}
FACTS = pa.schema([("lines", pa.int64())])


class LinesSource(KafkaTopics):
    """Step 1: what a user states about the connection, in `config/sources.py`."""


class TableRecords(NamedTuple):
    table: str
    source_table: str
    writer_schema: Contract | None
    source_database: str | None = None


class Discovery(NamedTuple):
    tables: Sequence[TableRecords]
    new_writer_schemas: Mapping[str, Contract]


class Plan(NamedTuple):
    feed: Feed
    contract: Contract
    window_id: str


class Line(NamedTuple):
    position: str
    letter: str
    id: int
    name: str


def facts(raw: pa.RecordBatch, _avro_schemas: Mapping[str, str]) -> pa.RecordBatch:
    """Step 2 starts here: a kernel. First the facts that discovery needs, of each batch and of all."""
    return pa.RecordBatch.from_pylist([{"lines": pc.count(raw.column("value")).as_py()}], FACTS)


def merged(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    lines = sum(count for part in parts for count in part.column("lines").to_pylist())
    return pa.RecordBatch.from_pylist([{"lines": lines}], FACTS)


def discover(batch: pa.RecordBatch, _feed: Feed, _known: EarlierWindows) -> Discovery:
    """All lines belong to one table, whose columns never change."""
    lines = batch.column("lines")[0].as_py()
    return Discovery([TableRecords(COLUMNS.table, COLUMNS.table, COLUMNS)] if lines else [], {})


def routes(raw: pa.RecordBatch, _discovery: Discovery) -> pa.Int32Array:
    """A message without a value belongs to no table."""
    return pc.if_else(raw.column("value").is_valid(), pa.scalar(0, pa.int32()), pa.scalar(None, pa.int32()))


def plan(
    _discovery: Discovery,
    _number: int,
    feed: Feed,
    _written: ResolvedSchema,
    contract: Contract,
    window_id: str,
) -> Plan:
    return Plan(feed, contract, window_id)


def decode(raw: pa.RecordBatch, how: Plan) -> pa.RecordBatch:
    """Returns one row of `message_rows.decoded_schema` per message; bad ones have reason and detail."""
    parsed = [line_of(value.decode()) for value in raw.column("value").to_pylist()]
    good = np.array([at for at, entry in enumerate(parsed) if isinstance(entry, Line)], np.int64)
    bad = {at: entry for at, entry in enumerate(parsed) if isinstance(entry, Outcome)}
    lines = [entry for entry in parsed if isinstance(entry, Line)]
    read = changes_of(lines, raw.take(pa.array(good)), how.contract)
    ledger = changes.ledger_rows(read, how.contract, how.feed.feed, "lines", how.window_id)
    columns = message_rows.spread(ledger.columns, good, raw.num_rows)
    columns[ledger.schema.get_field_index("source_position")] = message_rows.record(raw)
    columns += message_rows.outcomes(raw, list(bad), list(bad.values()))
    return pa.RecordBatch.from_arrays(columns, schema=message_rows.decoded_schema(how.contract))


def line_of(text: str) -> Line | Outcome:
    position, letter, row_id, name = text.split(",")
    if lsn.parse(position) is None:
        return Outcome(change.QUARANTINED, "malformed_lsn", text)
    if not row_id:
        return Outcome(change.QUARANTINED, "null_key", text)
    return Line(position, letter, int(row_id), name)


def changes_of(lines: Sequence[Line], raw: pa.RecordBatch, contract: Contract) -> Changes:
    size = len(lines)
    is_delete, is_update = (np.array([line.letter == letter for line in lines], np.bool_) for letter in "DU")
    cells = [
        pa.array([line.id for line in lines], pa.int32()),
        pa.array([line.name for line in lines], pa.string()),
    ]
    position = lsn.parse_all(pa.array([line.position for line in lines], pa.string()))
    return Changes(
        operation=pa.array([OPERATIONS[line.letter] for line in lines], pa.string()),
        before=images.fitted(side(cells, is_delete), COLUMNS, contract),
        after=images.fitted(side(cells, ~is_delete), COLUMNS, contract),
        key=cells[:1],
        moved=np.zeros(size, np.bool_),
        changed=pa.nulls(size, pa.list_(pa.string())),
        commit_lsn=position,
        change_lsn=lsn.parse_all(pa.nulls(size, pa.string())),
        event_serial_no=pa.nulls(size, pa.int64()),
        sort_key=position.array(),
        committed_at=raw.column("timestamp"),
        transaction_id=pa.nulls(size, pa.string()),
        flags={change.BEFORE_UNKNOWN: is_update},
        source_position=message_rows.record(raw),
    )


def side(cells: Sequence[pa.Array], present: Bools) -> Image:
    """Returns the image of the rows that have one."""
    mask = pa.array(present)
    return Image(present, [pc.if_else(mask, cell, pa.scalar(None, cell.type)) for cell in cells], None)


def decode_other(raw: pa.RecordBatch, _feed: Feed, _discovery: Discovery) -> pa.RecordBatch:
    return message_rows.unchanged(raw, [Outcome(change.TOMBSTONE)] * raw.num_rows)


LINES = MessageKernel("lines", FACTS, facts, merged, discover, routes, decode, decode_other, plan)


def test_a_sixth_dialect_goes_through_the_whole_line(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sources.SOURCE_MODELS, "lines", LinesSource)
    # Step 3: a line in the registry. Step 4, its cases, is this test.
    monkeypatch.setitem(DIALECTS, "lines", MessageDialect(LINES))
    lines = [
        f"{n:020X},{fields}".encode() for n, fields in enumerate(("I,1,a", "I,2,b", "U,1,c", "D,2,b"), 1)
    ]
    values = [*lines, b"12,I,3,x", f"{9:020X},I,,x".encode(), None]
    sent = [Message("lines", b"", value, (), 1_700_000_000_000) for value in values]
    produce(kafka.bootstrap, sent, partitions=1)
    feed = message_feed("lines", "lines", kafka, ["lines"], monkeypatch, tables=[{"table": "dbo.t"}])
    run(spark, feed, window())
    assert [(row["id"], row["name"]) for row in stored_rows("lake.lines.dbo_t")] == [(1, "c")]
    assert len(stored_rows("lake.lines.dbo_t_changes")) == 4
    reasons = {row["reason"] for row in stored_rows("lake.lines.quarantine")}
    assert reasons == {"malformed_lsn", "null_key"}
    assert {row["disposition"] for row in stored_rows("lake.lines.dispositions")} == {
        "quarantined",
        "tombstone",
    }
