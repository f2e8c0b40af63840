"""Determines the byte order of change masks from a table's records, without a control store.

`mask_orders` adds what earlier windows have proved.
"""

from __future__ import annotations

from changeledger.dialects.kernel import ResolvedSchema
from changeledger.mask_order import decision
from changeledger.model.contract import ByteOrder, Contract
from changeledger.stages.normalization.reading import Records

# Columns in a mask of one byte, which has no byte order.
_ONE_BYTE = 8


def resolved_alone(records: Records, writer_schema: Contract) -> ResolvedSchema:
    """Returns the writer schema with the order of its masks, or why masks must not be read."""
    if is_plain(records, writer_schema):
        return as_stated(records, writer_schema)
    _, reading = judged(records, writer_schema, decision.Evidence())
    return read_as(writer_schema, reading)


def is_plain(records: Records, writer_schema: Contract) -> bool:
    """Returns whether no order has to be determined: there are no masks, or masks of one byte."""
    highest = max((c.ordinal for c in writer_schema.columns), default=0)
    return records.mask_rules is None or highest <= _ONE_BYTE


def as_stated(records: Records, writer_schema: Contract) -> ResolvedSchema:
    """Returns the writer schema with the order stated by the feed, or the unproved one for `auto`.

    The order matters at any width: a mask may also contain the zero bytes of the other end.
    """
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
    """Returns the evidence of the records, and the decision from it and the `earlier` evidence.

    Decodes the records without an order: in a wrong one, a mask may set bits beyond the table, and its record
    would be refused before it counts as evidence.
    """
    evidence = records.evidence(in_order(writer_schema, None).writer_schema)
    unproved = _unproved(records, writer_schema)
    return evidence, decision.decide(evidence, earlier, records.feed.mask_order, unproved)
