"""Builds the msgspec structs by which messages of one table are decoded; they accept only usual messages."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pyarrow as pa
from msgspec import UNSET, Meta, UnsetType

from changeledger.dialects.debezium.plan import TablePlan
from changeledger.dialects.debezium.values import Cell, cell_of
from changeledger.kernels import json_text
from changeledger.kernels.arrow import arrow_type

# The years 1 to 9999, in milliseconds since 1970.
FIRST, LAST = -62_135_596_800_000, 253_402_300_799_999
_Instant = Annotated[int, Meta(ge=FIRST, le=LAST)]
_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
# The values of `source.snapshot` in lower case (Debezium's `SnapshotRecord`).
SNAPSHOTS = frozenset(
    {"true", "first", "first_in_data_collection", "last_in_data_collection", "last", "false", "incremental"}
)
_OPERATION = Literal["c", "u", "d", "r"]


class _Transaction(msgspec.Struct, gc=False):
    id: str | None = None


class Typed(NamedTuple):
    """The decoder for one table's messages, and its columns. `keys`: the numbers of the key's columns."""

    decoder: msgspec.json.Decoder[Any]
    cells: Sequence[Cell]
    kinds: Sequence[pa.DataType]
    keys: Sequence[int]


@lru_cache(maxsize=64)
def typed(plan: TablePlan) -> Typed:
    """Returns the decoder for a plan, compiled once per process."""
    columns = plan.writer_schema.columns
    cells = [cell_of(column, plan.source, field) for column, field in plan.written_columns]
    rename = json_text.renamed(column.name for column in columns)
    wires = (cell.wire if cell.wire is msgspec.Raw else cell.wire | None for cell in cells)
    row = msgspec.defstruct(
        "Row",
        [(field, wire | UnsetType, UNSET) for field, wire in zip(rename, wires, strict=True)],
        rename=rename,
        forbid_unknown_fields=True,
        gc=False,
    )
    members: list[Any] = [
        ("op", _OPERATION | None, None),
        ("ts_ms", _Instant | None, None),
        ("source", _source(plan) | None, None),
        ("before", row | None, None),
        ("after", row | None, None),
        ("transaction", _Transaction | None, None),
    ]
    event = msgspec.defstruct("Event", members, gc=False)
    message = msgspec.defstruct("Message", [*members, ("payload", event | None, None)], gc=False)
    keys = [at for at, column in enumerate(columns) if column.key_position]
    kinds = [arrow_type(column.spark_type) for column in columns]
    return Typed(json_text.decoder(message), cells, kinds, keys)


def _source(plan: TablePlan) -> Any:
    """Returns the struct of `source`, with table and database as literals.

    A message with other names does not decode, and is checked on its own.
    """
    schema, table = plan.source_table.split(".", 1)
    members: list[Any] = [
        ("connector", str | None, None),
        ("snapshot", str | bool | None, None),
        ("ts_ms", _Instant | None, None),
        ("commit_lsn", str | None, None),
        ("change_lsn", str | None, None),
        ("lsn", _Count | None, None),
        ("event_serial_no", _Count | str | None, None),
        ("schema", Literal[schema] | None, None),
        ("table", Literal[table] | None, None),
    ]
    if plan.database is not None:
        members.append(("db", Literal[plan.database] | None, None))
    elif plan.is_of_several:
        members.append(("db", None, None))
    return msgspec.defstruct("Source", members, gc=False)
