"""Reconcile: applies the run's changes to the published history and current rows, on the run's branch."""

from __future__ import annotations

from changeledger.lake import catalog, refs, scans
from changeledger.model.contract import Contract
from changeledger.stages.common import branches
from changeledger.stages.common.context import StageContext
from changeledger.stages.common.frame import stage
from changeledger.stages.reconciliation.breaks import Breaks, write_breaks
from changeledger.stages.reconciliation.building import Building


@stage
def run(ctx: StageContext) -> None:
    normalized = ctx.require_done("normalize").tables
    contracts = list(ctx.contracts().values())
    ledgers = {c.table: ctx.names[c.table].changes for c in contracts}
    tables = {*normalized, *(name for c in contracts for name in ctx.names[c.table])}
    loaded = catalog.look(tables)
    published = {} if ctx.starts_over else refs.heads_in(loaded, refs.MAIN)
    # Tables still at the snapshot of main have no changes of this run.
    untouched = {name: at for name, at in normalized.items() if published.get(name) == at}
    ctx.begin_from({name: at for name, at in normalized.items() if name not in untouched})
    ctx.control.windows.begin_stage(ctx.feed.feed, ctx.window, "reconcile")
    written = {name: normalized[name] for name in ledgers.values() if name not in untouched}
    new = scans.of_run(written, ctx.id)
    quiet = [ctx.names[c.table] for c in contracts if not new.get(ledgers[c.table])]
    of_quiet = {name: loaded[name] for names in quiet for name in (names.history, names.current)}
    untouched |= branches.untouched(of_quiet, published)
    released = ctx.control.contracts.of_feed(ctx.feed.feed)

    def build(contract: Contract) -> Breaks | None:
        """Builds history and current rows of one table. Returns the breaks of its image chain."""
        table, names = contract.table, ctx.names[contract.table]
        begun = {
            name: branches.begin(ctx, name, contract, published.get(name), released.get(table))
            for name in (names.history, names.current)
            if name not in untouched
        }
        if not new.get(names.changes):
            return None
        return Building(ctx, contract, normalized[names.changes], begun[names.history]).build()

    built = ctx.workers.each(build, contracts)
    write_breaks(ctx, [breaks for breaks in built if breaks is not None])
    tables.update(catalog.existing([ctx.lake.image_chain_breaks]))
    ctx.finish("reconcile", tables - untouched.keys(), untouched=untouched)
