"""What is published where a window's changes stand: what they may repeat, or be the other half of."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysFalse, BooleanExpression, Or

from changeledger.kernels import touched
from changeledger.kernels.arrow import column, ledger_schema
from changeledger.kernels.rows import Here, Rows, as_batch
from changeledger.kernels.touched import HASHES, Among, HashesOf, known
from changeledger.model.contract import Contract
from changeledger.reconcile import ledger_kernels
from changeledger.stages.common.carrier import Carrier
from changeledger.stages.common.context import StageContext
from changeledger.storage import refs, scans
from changeledger.storage.spread import Spread

# Of ledger rows, to find those at the positions of others.
_PLACED = pa.schema([("change_id", pa.string()), ("commit_lsn", pa.binary()), ("change_lsn", pa.binary())])
# Of a batch of changes: the ends of their commit LSNs, and whether some have none.
_ENDS = pa.schema([("commit_lsn", pa.binary()), ("is_unplaced", pa.bool_())])


def nothing(contract: Contract) -> Rows:
    return Here(ledger_schema(contract).empty_table())


def published(ctx: StageContext, contract: Contract, changes: Rows) -> Rows | None:
    """The published ledger rows that can be at the positions of the changes; None if there are none."""
    if isinstance(changes, Here):
        return _here(ctx, contract, changes.table)
    table = ctx.names[contract.table].changes
    near = None if refs.snapshot_of(table) is None else between(changes)
    if near is None:
        return None
    assert isinstance(changes, Spread), "rows are here or spread"
    carrier = Carrier(changes.size, changes.cache)
    own = changes.through(HashesOf(ledger_kernels.key), HASHES).collected()
    among = Among(ledger_kernels.key, known(own))
    narrow = ledger_schema(contract).field("source_position")
    placed = carrier.scanned(ctx.spark, table, near, (_PLACED.append(narrow), None), among)
    if not len(placed.collected(1)):
        return None
    return carrier.scanned(ctx.spark, table, near, (ledger_schema(contract), None), among)


def _here(ctx: StageContext, contract: Contract, changes: pa.Table) -> Rows | None:
    """Of the same commits; others of them are no harm."""
    if not len(changes):
        return None
    lsns = column(changes, "commit_lsn")
    where: BooleanExpression = scans.among({"commit_lsn": lsns})
    if lsns.null_count:
        where = Or(where, scans.is_null("commit_lsn"))
    found = scans.read(ctx.names[contract.table].changes, where, ledger_schema(contract))
    return Here(found) if len(found) else None


def between(changes: Rows) -> BooleanExpression | None:
    """A condition that files of the ledger can be passed over by; None if there are no changes."""
    found = changes.through(_ends, _ENDS).collected().combine_chunks()
    if not len(found):
        return None
    lsns = touched.ends(as_batch(found.select(["commit_lsn"])))
    is_near = AlwaysFalse() if lsns.column(0).null_count else scans.is_between(lsns)
    is_unplaced = pc.any(found.column("is_unplaced")).as_py()
    return Or(is_near, scans.is_null("commit_lsn")) if is_unplaced else is_near


def _ends(changes: pa.RecordBatch) -> pa.RecordBatch:
    lsns = changes.column("commit_lsn")
    both = touched.ends(changes.select(["commit_lsn"])).column(0)
    return pa.RecordBatch.from_arrays([both, pa.array([lsns.null_count > 0] * 2)], schema=_ENDS)
