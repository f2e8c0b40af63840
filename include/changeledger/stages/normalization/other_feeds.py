"""What the other feeds of a database know of its tables."""

from __future__ import annotations

from changeledger.config.feed import Feed
from changeledger.config.files import readable_feeds
from changeledger.dialects.registry import DIALECTS
from changeledger.model.contract import Contract
from changeledger.stages.common.context import StageContext, log


def borrowed(ctx: StageContext, table: str) -> Contract | None:
    """The contract that another feed has, the primary one first."""
    for other in sorted(_others(ctx), key=lambda other: not other.primary):
        contract = ctx.control.contract(other.feed, table)
        if contract is not None:
            log.info("%s: %s: columns as %s has them", ctx.feed.feed, table, other.feed)
            return contract.unpublished
    return None


def computed(ctx: StageContext, table: str) -> frozenset[str]:
    """The columns, in lower case, that another feed's source or file says to be computed.

    A feed whose own source says it asks no other. What a feed finds out here it does not pass on.
    """
    columns: set[str] = set()
    for other in [] if ctx.dialect.knows_computed else _others(ctx):
        config = other.table(table)
        columns |= {c.name.lower() for c in config.columns if c.computed} if config else set()
        contract = ctx.control.contract(other.feed, table)
        if contract is not None and DIALECTS[other.dialect].knows_computed:
            columns |= contract.computed
    return frozenset(columns)


def _others(ctx: StageContext) -> list[Feed]:
    return [
        other
        for other in readable_feeds(ctx.settings.feeds)[0].values()
        if other.database == ctx.feed.database and other.feed != ctx.feed.feed
    ]
