"""Reconcile: applies the run's changes to the published history and current rows, on the run's branch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

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
    run_tables = _Tables(ctx, loaded, published, ctx.control.contracts.of_feed(ctx.feed.feed))

    def build(contract: Contract) -> _Built:
        ledger = ledgers[contract.table]
        return run_tables.build(contract, normalized[ledger], new.get(ledger, 0))

    built = ctx.workers.each(build, contracts)
    write_breaks(ctx, [of.breaks for of in built if of.breaks is not None])
    for of in built:
        untouched |= of.untouched
    tables.update(catalog.existing([ctx.lake.image_chain_breaks]))
    ctx.finish("reconcile", tables - untouched.keys(), untouched=untouched)


class _Built(NamedTuple):
    """A built table: the breaks of its image chain, and the main snapshots of what the run did not change."""

    breaks: Breaks | None
    untouched: Mapping[str, int]


class _Tables(NamedTuple):
    """What the history and current rows of the run's tables continue from."""

    ctx: StageContext
    loaded: refs.Tables
    # The snapshots of main.
    published: Mapping[str, int]
    # The contracts of the newest release.
    released: Mapping[str, Contract]

    def build(self, contract: Contract, ledger: int, changes: int) -> _Built:
        """Builds history and current rows of one table.

        `ledger`: the ledger's snapshot with the new changes. `changes`: how many new changes there are.
        """
        names = self.ctx.names[contract.table]
        loaded = {name: self.loaded[name] for name in (names.history, names.current)}
        untouched = {} if changes else branches.untouched(loaded, self.published)
        released = self.released.get(contract.table)
        begun = {
            name: branches.begin(self.ctx, name, contract, self.published.get(name), released)
            for name in loaded
            if name not in untouched
        }
        building = Building(self.ctx, contract, ledger, begun.get(names.history))
        return _Built(building.build() if changes else None, untouched)
