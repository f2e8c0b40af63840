"""Comments in the catalog: where the tables that a run writes come from."""

from __future__ import annotations

from collections.abc import Iterable

from changeledger.lake import comments, iceberg
from changeledger.model.comments import comments as comments_of
from changeledger.model.contract import Contract
from changeledger.stages.common.context import StageContext


def describe(ctx: StageContext, contracts: Iterable[Contract]) -> None:
    """Of the tables of these contracts, which are as in the source."""
    feed = ctx.feed
    tables = [
        (table, comments_of(kind, contract, feed.database, feed.feed, feed.dialect))
        for contract in contracts
        for kind, table in ctx.names[contract.table]._asdict().items()
    ]
    iceberg.parallel_map(lambda table_comments: comments.write(*table_comments), tables)
