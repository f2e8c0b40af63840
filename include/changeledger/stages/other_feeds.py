"""What the other feeds of a database know of its tables."""

from __future__ import annotations

from changeledger.config import Feed, readable_feeds
from changeledger.contract import Contract
from changeledger.dialects.registry import DIALECTS
from changeledger.stages.run import Run, log


def borrowed(this: Run, table: str) -> Contract | None:
    """The contract that another feed has, the primary one first."""
    for other in sorted(_others(this), key=lambda other: not other.primary):
        contract = this.control.contract(other.feed, table)
        if contract is not None:
            log.info("%s: %s: columns as %s has them", this.feed.feed, table, other.feed)
            return contract
    return None


def computed(this: Run, table: str) -> frozenset[str]:
    """The columns, in lower case, that another feed's source or file says to be computed.

    A feed whose own source says it asks no other. What a feed has learnt here it does not pass on.
    """
    found: set[str] = set()
    for other in [] if this.dialect.knows_computed else _others(this):
        config = other.table(table)
        found |= {c.name.lower() for c in config.columns if c.computed} if config else set()
        contract = this.control.contract(other.feed, table)
        if contract is not None and DIALECTS[other.dialect].knows_computed:
            found |= contract.computed
    return frozenset(found)


def _others(this: Run) -> list[Feed]:
    return [
        other
        for other in readable_feeds(this.settings.feeds)[0].values()
        if other.database == this.feed.database and other.feed != this.feed.feed
    ]
