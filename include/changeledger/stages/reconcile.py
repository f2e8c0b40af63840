"""Reconcile: history and current rows continue from what is published, by the run's changes."""

from __future__ import annotations

from collections.abc import Mapping

from changeledger.lake import catalog, scans
from changeledger.model.contract import Contract
from changeledger.stages.common import branches
from changeledger.stages.common.context import StageContext
from changeledger.stages.common.frame import stage
from changeledger.stages.reconciliation.breaks import Breaks, write_breaks
from changeledger.stages.reconciliation.building import Building


@stage
def run(ctx: StageContext) -> None:
    normalized = ctx.begin_from("normalize").tables
    ctx.control.windows.begin_stage(ctx.feed.feed, ctx.window, "reconcile")
    contracts = list(ctx.contracts().values())
    ledgers = {c.table: ctx.names[c.table].changes for c in contracts}
    published = ctx.published(name for contract in contracts for name in ctx.names[contract.table])
    # A ledger that stands where main stands has no change of the run.
    written = {name: normalized[name] for name in ledgers.values() if published.get(name) != normalized[name]}
    new = scans.of_run(written, ctx.id)

    def build(contract: Contract) -> Breaks | None:
        ledger = ledgers[contract.table]
        return _table(ctx, contract, published, normalized[ledger], new.get(ledger, 0))

    table_breaks = ctx.workers.each(build, contracts)
    write_breaks(ctx, [breaks for breaks in table_breaks if breaks is not None])
    built = {*normalized, *(name for c in contracts for name in ctx.names[c.table])}
    if catalog.exists(ctx.lake.image_chain_breaks):
        built.add(ctx.lake.image_chain_breaks)
    ctx.finish("reconcile", sorted(built))


def _table(
    ctx: StageContext, contract: Contract, published: Mapping[str, int], ledger: int, changes: int
) -> Breaks | None:
    """Build one table from that many new changes; return what breaks its image chain.

    `published`: the snapshots of main, by lake table; `ledger`: the one with the new changes.
    """
    names = ctx.names[contract.table]
    history = branches.begin(ctx, names.history, contract, published.get(names.history))
    branches.begin(ctx, names.current, contract, published.get(names.current))
    return Building(ctx, contract, ledger, history).build() if changes else None
