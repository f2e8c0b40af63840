"""Comments in the catalog: where the tables that a run writes come from."""

from __future__ import annotations

from collections.abc import Iterable

from changeledger.lake import comments
from changeledger.lake.parallel import parallel_map
from changeledger.lake.refs import Tables
from changeledger.model.comments import comments as comments_of
from changeledger.model.contract import Contract
from changeledger.stages.common.context import StageContext


def describe(ctx: StageContext, contracts: Iterable[Contract], loaded: Tables) -> None:
    """Of the tables of these contracts, which are as in the source. `loaded`: those that are known."""
    feed = ctx.feed
    tables = [
        (table, comments_of(kind, contract, feed.database, feed.feed, feed.dialect))
        for contract in contracts
        for kind, table in ctx.names[contract.table]._asdict().items()
    ]
    parallel_map(lambda said: comments.write(*said, loaded.get(said[0])), tables)
