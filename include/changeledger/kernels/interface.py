"""What a kernel of messages is: a frozen record of functions, which Spark and the command line call alike.

A window is read in three steps: `facts` of every batch of raw messages, merged (`samples.merged`); a `survey`
of them on the driver; then for each of the survey's tables a `plan`, by which the messages of that table are
decoded. Survey and plan can be pickled. A batch may be cut anywhere: each message is decoded by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from changeledger.config import Feed
from changeledger.contract import Contract


class TableRecords(Protocol):
    """The messages of one table that share one writer schema."""

    @property
    def table(self) -> str:
        """The feed's name for it, `schema.table`."""
        ...

    @property
    def writer_schema(self) -> Contract | None:
        """The columns as the messages write them; None: those of the table's contract."""
        ...


class Survey(Protocol):
    """What the messages of a window are about."""

    @property
    def tables(self) -> Sequence[TableRecords]:
        """Every message is of one of these, or of no table."""
        ...


@dataclass(frozen=True)
class MessageKernel:
    """A dialect on Kafka topics. Raw batches are `arrow.MESSAGE`."""

    name: str
    # The messages of a batch that a survey may need (`samples.FACTS`).
    facts: Callable[[pa.RecordBatch], pa.RecordBatch]
    # The Avro schemas that the facts name: what a schema registry is asked for.
    schema_ids: Callable[[pa.RecordBatch], set[str]]
    # Of the window's facts, with the contracts of earlier windows by table, and Avro schemas by id.
    survey: Callable[[pa.RecordBatch, Feed, Mapping[str, Contract], Mapping[str, str]], Any]
    # int32: of each message the number of its `TableRecords`; NULL for those of no table.
    routes: Callable[[pa.RecordBatch, Any], pa.Int32Array]
    # For one of the survey's tables, by its number, its contract, and the id of the window.
    plan: Callable[[Any, int, Feed, Contract, str], Any]
    # One row per message of that table, in their order (`messages.decoded_schema`).
    decode: Callable[[pa.RecordBatch, Any], pa.RecordBatch]
    # One row per message of no table (`messages.UNCHANGED`).
    decode_other: Callable[[pa.RecordBatch, Feed, Any], pa.RecordBatch]
