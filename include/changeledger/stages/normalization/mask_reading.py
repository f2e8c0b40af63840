"""The byte order of a table's change masks, by what its own records say of it; without a control store.

What earlier windows have proved is `mask_orders`' part.
"""

from __future__ import annotations

from changeledger.dialects.kernel import ResolvedSchema
from changeledger.mask_order import decision
from changeledger.model.contract import ByteOrder, Contract
from changeledger.stages.normalization.reading import Records

# Of one byte there is one order.
_ONE_BYTE = 8


def resolved_alone(records: Records, writer_schema: Contract) -> ResolvedSchema:
    """How the records are written, with the order of their masks, or why these must not be read."""
    if is_plain(records, writer_schema):
        return as_stated(records, writer_schema)
    _, reading = judged(records, writer_schema, decision.Evidence())
    return read_as(writer_schema, reading)


def is_plain(records: Records, writer_schema: Contract) -> bool:
    """Is there nothing to find out: no masks, or masks of one byte?"""
    highest = max((c.ordinal for c in writer_schema.columns), default=0)
    return records.mask_rules is None or highest <= _ONE_BYTE


def as_stated(records: Records, writer_schema: Contract) -> ResolvedSchema:
    """An order counts at any width: the zero bytes of the other end may be in the mask as well."""
    stated = records.feed.mask_order
    return in_order(writer_schema, _unproved(records, writer_schema) if stated == "auto" else stated)


def _unproved(records: Records, writer_schema: Contract) -> ByteOrder:
    return "big" if records.mask_rules is None else records.mask_rules(writer_schema).unproved


def in_order(writer_schema: Contract, order: ByteOrder | None) -> ResolvedSchema:
    return ResolvedSchema(writer_schema.model_copy(update={"mask_order": order}))


def read_as(writer_schema: Contract, reading: decision.MaskDecision) -> ResolvedSchema:
    return in_order(writer_schema, reading.order)._replace(
        masks_unreadable=None if reading.order else reading.why
    )


def judged(
    records: Records, writer_schema: Contract, earlier: decision.Evidence
) -> tuple[decision.Evidence, decision.MaskDecision]:
    """What the records say, and how their masks are read after `earlier` windows said that.

    They are decoded without an order: in the wrong one a mask may set bits beyond the table, and its record
    would be refused before it says so.
    """
    evidence = records.evidence(in_order(writer_schema, None).writer_schema)
    unproved = _unproved(records, writer_schema)
    return evidence, decision.decide(evidence, earlier, records.feed.mask_order, unproved)
