"""Reconcile: history and current rows go on from what is published, by the run's changes."""

from __future__ import annotations

from collections.abc import Mapping

from changeledger.contract import Contract
from changeledger.plans import Keep, at_hand
from changeledger.stages import branches
from changeledger.stages.breaks import Breaks, write_breaks
from changeledger.stages.building import Building
from changeledger.stages.run import Run, stage
from changeledger.storage import catalog, lake, refs, scans


@stage
def run(this: Run) -> None:
    normalized = this.begin_from("normalize").tables
    this.control.begin_stage(this.feed.feed, this.window, "reconcile")
    contracts = list(this.contracts().values())
    ledgers = {c.table: this.names[c.table].changes for c in contracts}
    new = scans.of_run({name: normalized[name] for name in ledgers.values()}, this.id)
    tables = [name for c in contracts for name in (this.names[c.table].history, this.names[c.table].current)]
    published = refs.heads(tables, refs.MAIN)
    with at_hand() as keep:
        found = lake.each(lambda c: _table(this, c, published, new[ledgers[c.table]], keep), contracts)
        write_breaks(this, [breaks for breaks in found if breaks is not None])
    built = {*normalized, *(name for c in contracts for name in this.names[c.table])}
    if catalog.exists(this.breaks):
        built.add(this.breaks)
    this.finish("reconcile", sorted(built))


def _table(
    this: Run, contract: Contract, published: Mapping[str, int], changes: int, keep: Keep
) -> Breaks | None:
    """Build one table from that many new changes; return what breaks its image chain.

    `published`: the snapshots of main, by lake table.
    """
    names = this.names[contract.table]
    history = branches.begin(this, names.history, contract, published.get(names.history))
    branches.begin(this, names.current, contract, published.get(names.current))
    if not changes:
        return None
    return Building(this, contract, history, keep).build(changes)
