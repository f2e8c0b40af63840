"""The kernel of a change-table dialect: functions that Spark and the command line both call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from changeledger.config.feed import Feed
from changeledger.dialects.plan import TablePlan
from changeledger.mask_order.mask_evidence import MaskRules
from changeledger.model.contract import Contract


@dataclass(frozen=True)
class Hidden:
    """Columns whose values a row's position must not reveal, because positions are published.

    `left_out` and `hashed` are column names in lower case; `secret` is the key of the hashes.
    """

    left_out: frozenset[str] = frozenset()
    hashed: frozenset[str] = frozenset()
    secret: str = field(default="", repr=False)


@dataclass(frozen=True)
class TableKernel:
    """The functions of one dialect.

    A window's rows of one change table go through `record`, `raw.numbered`, `decode` and `pairs.joined`, in
    this order.
    """

    name: str
    # Computes positions (`arrow.RECORD`) from rows as read, the change table's name, the feed, and what is
    # hidden.
    record: Callable[[pa.RecordBatch, str, Feed, Hidden], pa.StructArray]
    # Decodes raw rows that have a `source_position`: one `outcomes.decoded_schema` row each, in their order.
    decode: Callable[[pa.RecordBatch, TablePlan], pa.RecordBatch]
    # Returns the rules that masks must obey, from the schema of the raw rows, the feed and the writer schema.
    mask_rules: Callable[[pa.Schema, Feed, Contract], MaskRules]
