"""The interface of a message kernel: a frozen record of functions that Spark and the command line both call.

A window is read in three steps:

1. `facts` picks what matters from every batch of raw messages, and `merged` combines the results.
2. On the driver, `discover` determines which tables the messages are about.
3. For each table a `plan` is made, by which its messages are decoded.

Discovery and plan can be pickled. A batch may be cut anywhere, because each message is decoded on its own.
Only the parts of an event that was split over several messages must come together (`Segments`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.plan import TablePlan
from changeledger.mask_order.mask_evidence import MaskRules
from changeledger.model.contract import Contract


class EarlierWindows(NamedTuple):
    """Contracts and schemas that are known from earlier windows."""

    # By table.
    contracts: Mapping[str, Contract]
    # By the name that a discovery gave each.
    writer_schemas: Mapping[str, Contract]
    # As JSON, by a registry's id or the name that a discovery gave each.
    avro_schemas: Mapping[str, str]


class TableRecords(Protocol):
    """The messages of one table that share one writer schema."""

    @property
    def table(self) -> str:
        """The feed's name of the table, `schema.table`."""
        ...

    @property
    def source_table(self) -> str:
        """The table's name in the messages."""
        ...

    @property
    def source_database(self) -> str | None:
        """The database of the messages, or None if they do not name it."""
        ...

    @property
    def writer_schema(self) -> Contract | None:
        """The columns as the messages write them, or None for those of the table's contract."""
        ...


class Discovery(Protocol):
    """What the messages of a window are about."""

    @property
    def tables(self) -> Sequence[TableRecords]:
        """The tables of the messages; a message is of one of these or of no table."""
        ...

    @property
    def new_writer_schemas(self) -> Mapping[str, Contract]:
        """Writer schemas to keep for later windows, by name."""
        ...


class ResolvedSchema(NamedTuple):
    """How messages of a table are written."""

    # Includes the byte order of the masks, if there are any.
    writer_schema: Contract
    # Why changes with a mask are quarantined, or None if masks may be read.
    masks_unreadable: str | None = None


class Joined(NamedTuple):
    """The result of joining segments.

    `events`: whole events, as raw messages together with their segments. `left`: segments of incomplete
    events, with their outcomes (`message_rows.UNCHANGED`).
    """

    events: pa.RecordBatch
    left: pa.RecordBatch


@dataclass(frozen=True)
class Segments:
    """Functions for events that were split over several messages."""

    # Tells by the facts whether there are split events.
    come_in: Callable[[pa.RecordBatch], bool]
    # Returns the messages of a batch that are parts of events, with the column `event` that parts share.
    of: Callable[[pa.RecordBatch], pa.RecordBatch]
    keyed_schema: pa.Schema
    # Joins parts. All parts of an event must be given at once.
    joined: Callable[[pa.RecordBatch], Joined]
    joined_schema: pa.Schema
    # The number that `routes` returns for parts of events.
    number: int


def _table_plan(
    _discovery: Any, _number: int, feed: Feed, resolved: ResolvedSchema, contract: Contract, window_id: str
) -> TablePlan:
    return TablePlan(feed, resolved.writer_schema, contract, window_id, resolved.masks_unreadable)


def _no_warnings(_discovery: Any) -> Sequence[str]:
    return ()


def _no_schemas(_facts: pa.RecordBatch) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class MessageKernel:
    """The kernel of a dialect on Kafka topics. Raw batches have the schema `arrow.MESSAGE`."""

    name: str
    facts_schema: pa.Schema
    # Picks what a discovery needs from a batch of messages. Takes the known Avro schemas.
    facts: Callable[[pa.RecordBatch, Mapping[str, str]], pa.RecordBatch]
    # Merges the facts of all parts of a window; the result does not depend on how the window was cut.
    merged: Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]
    discover: Callable[[pa.RecordBatch, Feed, EarlierWindows], Any]
    # Returns the number of each message's `TableRecords` (int32), or NULL for a message of no table.
    routes: Callable[[pa.RecordBatch, Any], pa.Int32Array]
    # Decodes messages of one table, one row each and in order (`message_rows.decoded_schema`).
    decode: Callable[[pa.RecordBatch, Any], pa.RecordBatch]
    # Decodes messages of no table, one row each (`message_rows.UNCHANGED`).
    decode_other: Callable[[pa.RecordBatch, Feed, Any], pa.RecordBatch]
    # Makes the plan of a table, by the discovery and the table's number in it, the feed, how the table is
    # written, its contract and the window's id.
    plan: Callable[[Any, int, Feed, ResolvedSchema, Contract, str], Any] = _table_plan
    # Returns the Avro schemas that messages of the window carry, by name.
    schemas_in: Callable[[pa.RecordBatch], Mapping[str, str]] = _no_schemas
    segments: Segments | None = None
    # Returns the rules for masks, by the writer's columns. None if the dialect has no masks.
    mask_rules: Callable[[Contract], MaskRules] | None = None
    # Returns warnings about messages that can all be read, one sentence each.
    warnings: Callable[[Any], Sequence[str]] = _no_warnings
