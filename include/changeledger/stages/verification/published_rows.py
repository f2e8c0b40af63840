"""What was read of a source, as a feed publishes it: so the two are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.expressions import BooleanExpression

from changeledger.compare.columns import Columns
from changeledger.config.feed import Feed
from changeledger.kernels.publishing import PublishRows, key_id
from changeledger.kernels.rows import Rows
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError
from changeledger.model.publishing import PublishRule
from changeledger.stages.common.publishing import secret_of
from changeledger.stages.common.stored import Readable


@dataclass(frozen=True)
class PublishedSource:
    """Rows of a source in the published columns of a contract."""

    stored: Readable
    contract: Contract
    secret: str

    def rows(self, names: Sequence[str], where: BooleanExpression | None = None) -> Rows:
        publish = PublishRows(self.contract, self.secret, names)
        return self.stored.rows(publish.needed, where).through(publish, publish.schema)


def published_rows(
    feed: Feed, stored: Readable, read: Mapping[str, Any], contract: Contract
) -> tuple[Columns, Readable]:
    """The columns in which rows of a source are compared with those that the feed publishes, and the rows.

    `read`: the contract by which they were read, as JSON; `contract`: the feed's own, as in the source.
    Raises ConfigError where the secret of hashes is missing, or not the one of the published rows.
    """
    source = _as_the_feed(Contract.model_validate(read), contract)
    columns = Columns.of(source.published, contract.published)
    if source.published == source:
        return columns, stored
    secret = secret_of(feed, source)
    if any(c.hash_key not in {None, key_id(secret)} for c in source.columns):
        raise ConfigError(
            f"{feed.feed}: CHANGELEDGER_HASH_KEY is not the one with which {contract.table} is published",
            "set it to that one, for commands as for Airflow's workers",
        )
    return columns, PublishedSource(stored, source, secret)


def _as_the_feed(read: Contract, contract: Contract) -> Contract:
    """The columns as they were read, published as the feed publishes them."""
    rules = {c.name.lower(): c for c in contract.columns}
    columns = [_like(c, rules[c.name.lower()]) for c in read.columns if c.name.lower() in rules]
    return read.model_copy(update={"columns": tuple(columns)})


def _like(read: Column, own: Column) -> Column:
    """What is cast in the feed is compared as it was read, where that is another type than the feed's."""
    rule = own.publish
    if rule is not None and rule.cast and read.spark_type != own.spark_type:
        rule = PublishRule(rename=rule.rename) if rule.rename else None
    return read.model_copy(update={"publish": rule, "hash_key": own.hash_key})
