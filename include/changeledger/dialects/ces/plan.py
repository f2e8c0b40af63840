"""What the kernel must know to decode one table's messages: small, without Spark, and picklable."""

from __future__ import annotations

from dataclasses import dataclass

from changeledger.config.feed import Feed
from changeledger.config.sources import CesSource
from changeledger.model.contract import Contract


@dataclass(frozen=True)
class TablePlan:
    """How the messages of one table, which share one writer schema, are decoded."""

    feed: Feed
    # The columns as the messages write them.
    writer_schema: Contract
    # The table's contract in the lake; it has all columns of the writer schema, in the same or wider types.
    contract: Contract
    window_id: str

    @property
    def source(self) -> CesSource:
        assert isinstance(self.feed.source, CesSource), "config binds a dialect to its source"
        return self.feed.source
