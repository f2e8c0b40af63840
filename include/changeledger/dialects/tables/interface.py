"""What a kernel of change tables is: a frozen record of functions, for Spark and the command line alike."""

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
    """What the place of a row must not tell of its contents, since published tables have the place.

    `left_out`, `hashed`: columns in lower case; `secret`: that of hashes.
    """

    left_out: frozenset[str] = frozenset()
    hashed: frozenset[str] = frozenset()
    secret: str = field(default="", repr=False)


@dataclass(frozen=True)
class TableKernel:
    """A window's rows of one change table go through `record`, `decode` and `pairs.joined`, in this order.

    Between the first two the rows that stand at one place are numbered (`raw.numbered`).
    """

    name: str
    # Where rows stand (`arrow.RECORD`): from rows as they were read, the change table's name, the feed, and
    # what is hidden.
    record: Callable[[pa.RecordBatch, str, Feed, Hidden], pa.StructArray]
    # A row (`outcomes.decoded_schema`) for each raw row, which has its `source_position`, in their order.
    decode: Callable[[pa.RecordBatch, TablePlan], pa.RecordBatch]
    # What masks must obey, by the rows as they were read, the feed, and the writer's columns.
    mask_rules: Callable[[pa.Schema, Feed, Contract], MaskRules]
