"""What a kernel of messages is: a frozen record of functions, which Spark and the command line call alike.

A window is read in three steps: `facts` of every batch of raw messages, `merged`; on the driver a `discovery`
of what they are about; then for each of its tables a `plan`, by which the messages of that table are decoded.
Discovery and plan can be pickled. A batch may be cut anywhere: each message is decoded by itself. Only the
parts of events that were split over several messages must come together (`Segments`).
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
    """What earlier windows have found."""

    # By table.
    contracts: Mapping[str, Contract]
    # By the names that discoveries gave them.
    writer_schemas: Mapping[str, Contract]
    # As JSON, by a registry's id or by the name that a discovery gave them.
    avro_schemas: Mapping[str, str]


class TableRecords(Protocol):
    """The messages of one table that share one writer schema."""

    @property
    def table(self) -> str:
        """The feed's name for it, `schema.table`."""
        ...

    @property
    def source_table(self) -> str:
        """Its name as the messages write it."""
        ...

    @property
    def source_database(self) -> str | None:
        """The database of which the messages are; None if they do not say it."""
        ...

    @property
    def writer_schema(self) -> Contract | None:
        """The columns as the messages write them; None: those of the table's contract."""
        ...


class Discovery(Protocol):
    """What the messages of a window are about."""

    @property
    def tables(self) -> Sequence[TableRecords]:
        """Every message is of one of these, or of no table."""
        ...

    @property
    def new_writer_schemas(self) -> Mapping[str, Contract]:
        """Writer schemas to be remembered for later windows, by name."""
        ...


class ResolvedSchema(NamedTuple):
    """How messages of a table are written."""

    # With the byte order of the masks, where there are any.
    writer_schema: Contract
    # Why the masks must not be read: changes with a mask are quarantined for it. None: they may be read.
    masks_unreadable: str | None = None


class Joined(NamedTuple):
    """`events`: whole events, as raw messages with their segments beside. `left`: segments of no whole event,
    with what becomes of them (`messages.UNCHANGED`)."""

    events: pa.RecordBatch
    left: pa.RecordBatch


@dataclass(frozen=True)
class Segments:
    """Events that were split over several messages."""

    # Do the facts say that there are some?
    come_in: Callable[[pa.RecordBatch], bool]
    # The messages of a batch that are parts of events, with the column `event`: equal for parts of one.
    of: Callable[[pa.RecordBatch], pa.RecordBatch]
    keyed_schema: pa.Schema
    # All parts of an event must be given at once.
    joined: Callable[[pa.RecordBatch], Joined]
    joined_schema: pa.Schema
    # The number that `routes` gives them.
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
    """A dialect on Kafka topics. Raw batches are `arrow.MESSAGE`."""

    name: str
    facts_schema: pa.Schema
    # What a discovery needs of the messages of a batch. Takes the Avro schemas that are known.
    facts: Callable[[pa.RecordBatch, Mapping[str, str]], pa.RecordBatch]
    # The facts of all parts of a window together; they do not depend on how it was cut.
    merged: Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]
    discover: Callable[[pa.RecordBatch, Feed, EarlierWindows], Any]
    # int32: of each message the number of its `TableRecords`; NULL for those of no table.
    routes: Callable[[pa.RecordBatch, Any], pa.Int32Array]
    # One row per message of that table, in their order (`messages.decoded_schema`).
    decode: Callable[[pa.RecordBatch, Any], pa.RecordBatch]
    # One row per message of no table (`messages.UNCHANGED`).
    decode_other: Callable[[pa.RecordBatch, Feed, Any], pa.RecordBatch]
    # For one of the discovery's tables, by its number, how it is written, its contract, and the window's id.
    plan: Callable[[Any, int, Feed, ResolvedSchema, Contract, str], Any] = _table_plan
    # The Avro schemas that messages of the window bring along, by name.
    schemas_in: Callable[[pa.RecordBatch], Mapping[str, str]] = _no_schemas
    segments: Segments | None = None
    # What masks must obey, by the writer's columns; None: the dialect has none.
    mask_rules: Callable[[Contract], MaskRules] | None = None
    # What people should know of a discovery's messages, though all can be read: one sentence each.
    warnings: Callable[[Any], Sequence[str]] = _no_warnings
