"""What other feeds of the same database know of its tables."""

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
    """The other feeds of one run's database. Their files are read once, when a table first asks."""

    ctx: StageContext

    def borrowed(self, table: str) -> Contract | None:
        """Returns the contract of another feed, preferably the primary one. None if no feed has one."""
        for other in sorted(self._feeds, key=lambda other: not other.primary):
            contract = self.ctx.control.contracts.of_table(other.feed, table)
            if contract is not None:
                log.info("%s: %s: takes the columns that %s has", self.ctx.feed.feed, table, other.feed)
                return contract.unpublished
        return None

    def computed(self, table: str) -> frozenset[str]:
        """Returns the columns, in lower case, that another feed's source or file declares as computed.

        A feed whose own source declares them asks no other feed, and a feed does not pass on what it learns
        here. If a file cannot be read, columns that were computed so far stay computed.
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
            log.warning(
                "%s: a feed's file cannot be read, and what it says of tables is ignored: %s",
                self.ctx.feed.feed,
                error.message,
            )
        return feeds, errors
