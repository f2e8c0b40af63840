"""Published changes at the positions of a window's changes, which may repeat or complete them."""

from __future__ import annotations

import pyarrow as pa

from changeledger.kernels.arrow import ledger_schema, row_type
from changeledger.kernels.rows import Rows, count, where
from changeledger.kernels.touched import COMMITS, HASHES, Among, HashesOf, Touched, commits, known
from changeledger.lake import refs, scans
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.reconcile import ledger_kernels
from changeledger.stages.common.context import StageContext

# Columns by which ledger rows at given positions are found.
_PLACED = pa.schema([("change_id", pa.string()), ("commit_lsn", pa.binary()), ("change_lsn", pa.binary())])
# Ids and positions of ledger rows.
_OWN = (
    ("change_id", pa.string()), ("paired_change_id", pa.string()),
    ("sort_key", pa.binary()), ("commit_lsn", pa.binary()),
)  # fmt: skip


def placed_schema(contract: Contract) -> pa.Schema:
    """Returns the schema of ledger rows with their keys, ids and positions."""
    key = row_type(contract.key)
    return pa.schema([("key", key), ("previous_key", key), *_OWN])


def published(ctx: StageContext, contract: Contract, decoded: Rows) -> Rows:
    """Returns the published ledger rows that can be at the positions of the decoded changes.

    Reads them from the run's branch, before it has changes of its own: there, new columns are marked.
    """
    table, nothing = ctx.names[contract.table].changes, ctx.workers.nothing(ledger_schema(contract))
    changes = where(decoded, "disposition", change.CHANGE)
    hashes = changes.through(HashesOf(ledger_kernels.key), HASHES)
    key_hashes, of_commits = hashes.collected_with([changes.through(commits, COMMITS)])
    if not len(key_hashes):
        return nothing
    near = scans.are_near(Touched.of(of_commits))
    among = Among(ledger_kernels.key, known(key_hashes))
    branch = refs.snapshot_of(table, ctx.branch)
    narrow = ledger_schema(contract).field("source_position")
    placed = scans.scanned(ctx.workers, table, near, _PLACED.append(narrow), branch, among)
    if not count(placed):
        return nothing
    return scans.scanned(ctx.workers, table, near, ledger_schema(contract), branch, among)
