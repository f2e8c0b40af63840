"""Determines the byte order of a table's change masks from its own records before they are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from changeledger.dialects.kernel import ResolvedSchema
from changeledger.mask_order.decision import Evidence
from changeledger.model.contract import ByteOrder, Contract
from changeledger.stages.common.context import StageContext, log
from changeledger.stages.normalization.mask_reading import as_stated, in_order, is_plain, judged, read_as
from changeledger.stages.normalization.reading import Records


@dataclass(frozen=True)
class MaskOrders:
    """Mask orders of one run. Evidence from records of a table's other writer schemas counts, too."""

    ctx: StageContext
    _of_run: dict[str, Evidence] = field(default_factory=dict)

    def resolved(self, records: Records, writer_schema: Contract) -> ResolvedSchema:
        """Returns the writer schema with the order of its masks, or why masks must not be read.

        Once records have proved an order, it is used. The audit reports masks that then disagree with their
        images.
        """
        feed, table, window = self.ctx.feed, records.table, self.ctx.window
        if is_plain(records, writer_schema):
            return as_stated(records, writer_schema)
        stored = self.ctx.control.contracts.mask_evidence(feed.feed).get(table)
        if feed.mask_order == "auto" and stored is not None and stored.mask_order is not None:
            return in_order(writer_schema, cast(ByteOrder, stored.mask_order))
        others = self._of_run.get(table, Evidence())
        earlier = others if stored is None else stored.without(window) + others
        evidence, reading = judged(records, writer_schema, earlier)
        self._of_run[table] = evidence + others
        self.ctx.control.contracts.save_mask_evidence(feed.feed, table, window, evidence + others, reading)
        log.info("%s: %s: masks are %s: %s", feed.feed, table, reading.order, reading.why)
        return read_as(writer_schema, reading)
