"""The byte order of a table's change masks, proved by its own records before they are read."""

from __future__ import annotations

from pyspark.sql import DataFrame

from changeledger import calibration, mask_order
from changeledger.config import ByteOrder, Feed
from changeledger.contract import Contract
from changeledger.dialects.base import Dialect
from changeledger.stages.reading import settled_pairs
from changeledger.stages.run import Run, log

# Published samples of every dialect with masks have the lowest ordinals in the last byte.
_PUBLISHED: ByteOrder = "big"
# Records of a window that are looked at: a proof needs ten, a source that turned shows within hundreds.
_LOOKED_AT = 20_000
# Of one byte there is one order.
_ONE_BYTE = 8


def settled(this: Run, shape: Contract, records: DataFrame) -> tuple[Contract, str | None]:
    """The shape with the order of its masks, and why they must not be read, where they must not.

    Once records have proved an order it is used; a mask that then disagrees with its images is a finding of
    the audit.
    """
    dialect, feed = this.dialect, this.feed
    if _is_plain(dialect, shape):
        return _as_stated(feed, shape), None
    stored = this.control.mask_evidence(feed.feed).get(shape.table)
    if feed.mask_order == "auto" and stored is not None and stored.mask_order is not None:
        return shape.model_copy(update={"mask_order": stored.mask_order}), None
    earlier = stored.without(this.window) if stored is not None else mask_order.Evidence()
    found, reading = _judged(dialect, feed, shape, records, earlier)
    this.control.save_mask_evidence(feed.feed, shape.table, this.window, found, reading)
    log.info("%s: %s: masks are %s: %s", feed.feed, shape.table, reading.order, reading.why)
    return _read_as(shape, reading)


def settled_alone(
    dialect: Dialect, feed: Feed, shape: Contract, records: DataFrame
) -> tuple[Contract, str | None]:
    """As `settled`, from what these records say alone."""
    if _is_plain(dialect, shape):
        return _as_stated(feed, shape), None
    _, reading = _judged(dialect, feed, shape, records, mask_order.Evidence())
    return _read_as(shape, reading)


def _is_plain(dialect: Dialect, shape: Contract) -> bool:
    highest = max((c.ordinal for c in shape.columns), default=0)
    return dialect.mask_rules is None or highest <= _ONE_BYTE


def _as_stated(feed: Feed, shape: Contract) -> Contract:
    """A stated order counts at any width: the zero bytes of the other end may be in the mask as well."""
    order = _PUBLISHED if feed.mask_order == "auto" else feed.mask_order
    return shape.model_copy(update={"mask_order": order})


def _published(shape: Contract) -> Contract:
    return shape.model_copy(update={"mask_order": _PUBLISHED})


def _read_as(shape: Contract, reading: mask_order.Reading) -> tuple[Contract, str | None]:
    return shape.model_copy(update={"mask_order": reading.order}), None if reading.order else reading.why


def _judged(
    dialect: Dialect, feed: Feed, shape: Contract, records: DataFrame, earlier: mask_order.Evidence
) -> tuple[mask_order.Evidence, mask_order.Reading]:
    as_published = _published(shape)
    decoded = settled_pairs(dialect.decode(records.limit(_LOOKED_AT), as_published, feed), dialect)
    assert dialect.mask_rules is not None, "asked only of dialects with masks"
    rules = dialect.mask_rules(as_published)
    rows = calibration.evidence(calibration.facts(decoded, as_published), as_published, rules)
    found = calibration.counted(rows.collect()[0], as_published)
    return found, mask_order.settle(found, earlier, feed.mask_order, _PUBLISHED)
