"""What the kernel must know to decode one table's messages: small, without Spark, and picklable."""

from __future__ import annotations

from dataclasses import dataclass

from changeledger.config.feed import Feed
from changeledger.model.contract import Contract


@dataclass(frozen=True)
class TablePlan:
    """How the messages of one table, which share one writer schema, are decoded."""

    feed: Feed
    # The columns as the metadata has them, with the byte order of the table's masks.
    writer_schema: Contract
    # The table's contract in the lake; it has all columns of the writer schema, in the same or wider types.
    contract: Contract
    window_id: str
    # The Avro schemas that messages name (`avro.Schemas`).
    avro_schemas: tuple[tuple[str, str], ...] = ()
    # Why the masks must not be read: changes with a mask are quarantined for it. None: they may be read.
    masks_unreadable: str | None = None
