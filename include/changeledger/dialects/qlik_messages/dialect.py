"""Qlik Replicate on Kafka."""

from __future__ import annotations

from changeledger.config.feed import Feed
from changeledger.dialects.interface import MessageDialect
from changeledger.dialects.kernel import MessageKernel, ResolvedSchema
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.qlik_messages import discovery
from changeledger.dialects.qlik_messages.decode import decode
from changeledger.dialects.qlik_messages.other_messages import decode_other
from changeledger.mask_order.mask_evidence import MaskRules
from changeledger.model.contract import Contract


def mask_rules(writer_schema: Contract) -> MaskRules:
    """Returns the rules of masks. Large objects are never in a mask, whatever their type in the lake is."""
    named = zip(writer_schema.names, writer_schema.large, strict=True)
    return MaskRules("key", excluded=frozenset(name for name, is_large in named if is_large))


def _plan(
    discovered: discovery.Discovery,
    _number: int,
    feed: Feed,
    resolved: ResolvedSchema,
    contract: Contract,
    window_id: str,
) -> TablePlan:
    schemas = tuple(sorted(discovered.avro_schemas.items()))
    return TablePlan(feed, resolved.writer_schema, contract, window_id, resolved.masks_unreadable, schemas)


QLIK_MESSAGES = MessageDialect(
    MessageKernel(
        "qlik_messages",
        discovery.FACTS,
        discovery.facts,
        discovery.merged,
        discovery.discover,
        discovery.routes,
        decode,
        decode_other,
        _plan,
        schemas_in=discovery.schemas_in,
        mask_rules=mask_rules,
    ),
    has_loads_without_position=True,
    has_changes_without_lsn=True,
)
