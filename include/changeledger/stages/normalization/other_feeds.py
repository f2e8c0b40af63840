"""What the other feeds of a database know of its tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from changeledger.config.feed import Feed
from changeledger.config.files import readable_feeds
from changeledger.dialects.registry import DIALECTS
from changeledger.model.contract import Contract
from changeledger.model.errors import ConfigError
from changeledger.stages.common.context import StageContext, log


@dataclass(frozen=True)
class OtherFeeds:
    """Of one run. Their files are read once, by the first table that asks."""

    ctx: StageContext

    def borrowed(self, table: str) -> Contract | None:
        """The contract that another feed has, the primary one first."""
        for other in sorted(self._feeds, key=lambda other: not other.primary):
            contract = self.ctx.control.contracts.of_table(other.feed, table)
            if contract is not None:
                log.info("%s: %s: columns as %s has them", self.ctx.feed.feed, table, other.feed)
                return contract.unpublished
        return None

    def computed(self, table: str) -> frozenset[str]:
        """The columns, in lower case, that another feed's source or file says to be computed.

        A feed whose own source says it asks no other. What a feed finds out here it does not pass on. Where a
        file cannot be read nobody knows what it says: columns that were computed so far stay so.
        """
        if self.ctx.dialect.knows_computed:
            return frozenset()
        columns: set[str] = set()
        if self._errors:
            own = self.ctx.control.contracts.of_table(self.ctx.feed.feed, table)
            columns |= set() if own is None else own.computed
        for other in self._feeds:
            config = other.table(table)
            columns |= {c.name.lower() for c in config.columns if c.computed} if config else set()
            contract = self.ctx.control.contracts.of_table(other.feed, table)
            if contract is not None and DIALECTS[other.dialect].knows_computed:
                columns |= contract.computed
        return frozenset(columns)

    @cached_property
    def _feeds(self) -> list[Feed]:
        feed = self.ctx.feed
        feeds = self._files[0].values()
        return [other for other in feeds if other.database == feed.database and other.feed != feed.feed]

    @property
    def _errors(self) -> list[ConfigError]:
        return self._files[1]

    @cached_property
    def _files(self) -> tuple[dict[str, Feed], list[ConfigError]]:
        feeds, errors = readable_feeds(self.ctx.settings.feeds)
        for error in errors:
            log.warning("%s: what it knows of tables does not count: %s", self.ctx.feed.feed, error.message)
        return feeds, errors
