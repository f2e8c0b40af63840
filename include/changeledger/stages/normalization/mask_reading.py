"""The byte order of a table's change masks, by what its own records say of it; without a control store.

What earlier windows have proved is `mask_orders`' part.
"""

from __future__ import annotations

from changeledger.config.feed import Feed
from changeledger.dialects.kernel import Written
from changeledger.mask_order import decision
from changeledger.model.byte_order import ByteOrder
from changeledger.model.contract import Contract
from changeledger.stages.normalization.reading import Records

# Published samples of every dialect with masks have the lowest ordinals in the last byte.
_PUBLISHED: ByteOrder = "big"
# Of one byte there is one order.
_ONE_BYTE = 8


def settled_alone(records: Records, written: Contract) -> Written:
    """How the records are written, with the order of their masks, or why these must not be read."""
    if is_plain(records, written):
        return as_stated(records.feed, written)
    _, reading = judged(records, written, decision.Evidence())
    return read_as(written, reading)


def is_plain(records: Records, written: Contract) -> bool:
    """Is there nothing to find out: no masks, or masks of one byte?"""
    highest = max((c.ordinal for c in written.columns), default=0)
    return records.mask_rules is None or highest <= _ONE_BYTE


def as_stated(feed: Feed, written: Contract) -> Written:
    """A stated order counts at any width: the zero bytes of the other end may be in the mask as well."""
    return in_order(written, _PUBLISHED if feed.mask_order == "auto" else feed.mask_order)


def in_order(written: Contract, order: ByteOrder | None) -> Written:
    return Written(written.model_copy(update={"mask_order": order}))


def read_as(written: Contract, reading: decision.Reading) -> Written:
    return in_order(written, reading.order)._replace(masks_unreadable=None if reading.order else reading.why)


def judged(
    records: Records, written: Contract, earlier: decision.Evidence
) -> tuple[decision.Evidence, decision.Reading]:
    """What the records say, and how their masks are read after `earlier` windows said that."""
    found = records.evidence(in_order(written, _PUBLISHED).writer_schema)
    return found, decision.settle(found, earlier, records.feed.mask_order, _PUBLISHED)
