"""Reads the keys of messages, in whatever form their converter writes them, and checks them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.config.sources import DebeziumSource
from changeledger.dialects.debezium.avro import DIALECT, block, schema_fault
from changeledger.dialects.debezium.field_types import read_field
from changeledger.dialects.debezium.plain import json_object, lacking, names_in
from changeledger.dialects.debezium.values import cell_of
from changeledger.dialects.kernel import EarlierWindows
from changeledger.dialects.messages import frames
from changeledger.dialects.messages.message_keys import as_json
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.dialects.messages.problems import Problem
from changeledger.dialects.messages.samples import Sample
from changeledger.kernels import avro
from changeledger.kernels.arrow import with_column
from changeledger.kernels.avro_types import UnusableSchema
from changeledger.model.column_names import shown
from changeledger.model.contract import Column, Contract

KEY_AS_WRITTEN = (
    "name the key's columns in `key:` and `columns:` of the table as the messages do. With "
    "field.name.adjustment.mode the connector writes an underscore for each character that Avro does "
    "not allow in names"
)


def readable(facts: pa.RecordBatch, schemas: Mapping[str, str]) -> pa.RecordBatch:
    """Returns facts of messages (`samples.FACTS`) with keys in JSON; for Avro, the key schema's block."""
    keys = facts.column("key").to_pylist()
    in_json = [_in_json(key, schemas) if avro.is_framed(key) else key for key in keys]
    return with_column(facts, "key", pa.array(in_json, pa.binary()))


def _in_json(key: bytes, schemas: Mapping[str, str]) -> bytes:
    """Returns the block of a framed key's schema as JSON, or the key unchanged if the schema is unknown."""
    try:
        return json.dumps({"schema": block(avro.schema(schemas.get(avro.schema_id(key), "")).root)}).encode()
    except UnusableSchema:
        return key


def fault(
    table: str, columns: Contract | None, samples: Iterable[Sample], feed: Feed, known: EarlierWindows
) -> Outcome | None:
    """Returns why a table's messages are not read because of their keys, or None.

    `columns`: None if they are those of the table's contract.

    * Images lack a column of the stated key.
    * Without a stated key, some messages have a longer key than `columns` says.
    * Nothing says the key, and the messages' own keys cannot be read or have columns that images lack.
    """
    config, columns = feed.table(table), columns or known.contracts.get(table)
    stated = () if config is None else config.key
    if columns is None:
        return None
    if stated and not columns.key:
        what = lacks_of_key(lacking(stated, columns.names), columns.names)
        return Problem("no_key", f"{columns.table}: {what}: {KEY_AS_WRITTEN}").outcome
    if columns.key:
        reasons = (None if stated else _of_longer_key(sample.key, columns) for sample in samples)
    else:
        reasons = (
            _unread(sample.key, known.avro_schemas) or _not_in_images(sample.key, columns)
            for sample in samples
        )
    return next((reason for reason in reasons if reason is not None), None)


def lacks_of_key(absent: Iterable[str], members: Iterable[str]) -> str:
    return f"the messages lack {shown(absent)} of the key; their columns are {shown(members)}"


def _of_longer_key(key: bytes | None, columns: Contract) -> Outcome | None:
    """Returns a fault if a message's key has more columns: rows told apart by fewer overwrite each other."""
    names, in_key = names_in(json_object(key)), [column.name for column in columns.key]
    beyond = lacking(names, in_key)
    # A column that no image has cannot identify a row of the lake.
    if not beyond or lacking(beyond, columns.names):
        return None
    what = f"the key of {columns.table} is {shown(names)} in some messages and {shown(in_key)} in others"
    return Problem("no_key", f"{what}, so rows would be mixed up: state `key:` of the table").outcome


def _not_in_images(key: bytes | None, columns: Contract) -> Outcome | None:
    lacks = lacking(names_in(json_object(key)), columns.names)
    if not lacks:
        return None
    what = (
        f"the key of {columns.table} has {shown(lacks)}, which its images lack: the remaining columns would "
        "mix up rows"
    )
    remedy = (
        "Remove it from column.exclude.list, add it to `columns:` if the feed states them, or state `key:`"
    )
    return Problem("no_key", f"{what}. {remedy} of the table").outcome


def _unread(key: bytes | None, schemas: Mapping[str, str]) -> Outcome | None:
    if key is None or _is_json(key):
        return None
    reason: Outcome | None
    frame = frames.unread(key, (), "key")
    if frame is not None:
        reason = frame.problem(DIALECT).outcome
    elif avro.is_framed(key):
        reason = schema_fault(avro.schema_id(key), schemas, "key")
    else:
        what = f"the key is neither JSON nor framed Avro, it {avro.beginning(key)}"
        reason = Problem("unread_key", f"{what}; {frames.converters('key')}").outcome
    return reason and reason._replace(detail=f"{reason.detail}; or state `key:` of the table")


def _is_json(key: bytes) -> bool:
    try:
        json.loads(key)
    except (ValueError, RecursionError):
        return False
    return True


def read_cell(cell: Any, column: Column, said: Mapping[str, Any] | None, feed: Feed) -> Any:
    """Reads a cell of a key (`message_keys.ReadCell`) by its schema block or the connector's modes."""
    assert isinstance(feed.source, DebeziumSource), "config binds a dialect to its source"
    written = cell_of(column, feed.source, None if said is None else read_field(said))
    return written.read(cell) if isinstance(cell, str) else written.of_unquoted(as_json(cell))
