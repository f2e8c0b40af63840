"""The byte order of a table's change masks, proved by its own records before they are read."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger import calibration, change, mask_order
from changeledger.config import ByteOrder
from changeledger.contract import Contract
from changeledger.dialects.base import quarantined_if
from changeledger.reconcile import pairs
from changeledger.stages.run import Run, log

# Published samples of every dialect with masks have the lowest ordinals in the last byte.
_PUBLISHED: ByteOrder = "big"
# Records of a window that are looked at: a proof needs ten, a source that turned shows within hundreds.
_LOOKED_AT = 20_000
# Wider masks only: of one byte there is one order.
_ONE_BYTE = 8


def settled(this: Run, shape: Contract, records: DataFrame) -> tuple[Contract, str | None]:
    """The shape with the order of its masks, and why they must not be read, where they must not.

    Once records have proved an order it is used; a mask that then disagrees with its images is a finding of
    the audit.
    """
    rules = this.dialect.mask_rules
    if rules is None:
        return shape, None
    setting = this.feed.mask_order
    if max(c.ordinal for c in shape.columns) <= _ONE_BYTE:
        return shape.model_copy(update={"mask_order": _PUBLISHED}), None
    stored = this.control.mask_evidence(this.feed.feed).get(shape.table)
    if setting == "auto" and stored is not None and stored.mask_order is not None:
        return shape.model_copy(update={"mask_order": stored.mask_order}), None
    found = _evidence(this, shape.model_copy(update={"mask_order": _PUBLISHED}), records)
    earlier = stored.without(this.window) if stored is not None else mask_order.Evidence()
    reading = mask_order.settle(found, earlier, setting, _PUBLISHED)
    this.control.save_mask_evidence(this.feed.feed, shape.table, this.window, found, reading)
    log.info("%s: %s: masks are %s: %s", this.feed.feed, shape.table, reading.order, reading.why)
    return shape.model_copy(update={"mask_order": reading.order}), None if reading.order else reading.why


def _evidence(this: Run, shape: Contract, records: DataFrame) -> mask_order.Evidence:
    decoded = this.dialect.decode(records.limit(_LOOKED_AT), shape, this.feed)
    if this.dialect.images_apart:
        decoded = pairs.join_images(decoded)
    assert this.dialect.mask_rules is not None
    rows = calibration.evidence(calibration.facts(decoded, shape), shape, this.dialect.mask_rules(shape))
    return calibration.counted(rows.collect()[0], shape)


def closed(decoded: DataFrame, why: str) -> DataFrame:
    """Changes whose masks cannot be read are quarantined: what they changed is not known."""
    unread = (F.col("disposition") == change.CHANGE) & F.col("mask").isNotNull()
    reason = F.when(unread, F.lit("mask_order_contradicted"))
    return decoded.withColumns(
        {
            "disposition": quarantined_if(reason, F.col("disposition")),
            "reason": F.coalesce(reason, F.col("reason")),
            "detail": F.when(unread, F.lit(why[:500])).otherwise(F.col("detail")),
        }
    )
