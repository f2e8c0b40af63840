"""What is published where a window's changes stand: what they may repeat, or be the other half of."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression, Or
from pyspark.sql import Column
from pyspark.sql import functions as F

from changeledger.kernels.arrow import column, ledger_schema
from changeledger.kernels.rows import Here, Rows
from changeledger.model.contract import Contract
from changeledger.stages.common.context import StageContext
from changeledger.storage import lake, scans
from changeledger.storage.spread import Spread

# Of a batch of changes.
_ENDS = pa.schema(
    [("first", pa.binary()), ("last", pa.binary()), ("unplaced", pa.int64()), ("rows", pa.int64())]
)


def nothing(contract: Contract) -> Rows:
    return Here(ledger_schema(contract).empty_table())


def published(ctx: StageContext, contract: Contract, changes: Rows) -> Rows | None:
    """The published ledger rows that can be at the positions of the changes; None where there are none."""
    schema = ledger_schema(contract)
    if isinstance(changes, Here):
        return _here(ctx, contract, changes.table)
    near = between(changes)
    if near is None:
        return None
    rows = lake.read(ctx.spark, ctx.names[contract.table].changes).where(near)
    rows = rows.select(*schema.names)
    if rows.isEmpty():
        return None
    assert isinstance(changes, Spread), "rows are here or spread"
    return Spread.of(rows, changes.cache, changes.size, schema)


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


def between(changes: Rows) -> Column | None:
    """A condition that files of the ledger can be passed over by; None where there are no changes."""
    ends = changes.through(_ends, _ENDS).collected()
    first, last = (pc.min_max(ends.column(name)).as_py() for name in ("first", "last"))
    if not len(ends) or not pc.sum(ends.column("rows")).as_py():
        return None
    is_near = F.lit(False)
    if first["min"] is not None:
        is_near = F.col("commit_lsn").between(F.lit(first["min"]), F.lit(last["max"]))
    unplaced = pc.sum(ends.column("unplaced")).as_py()
    return is_near | F.col("commit_lsn").isNull() if unplaced else is_near


def _ends(changes: pa.RecordBatch) -> pa.RecordBatch:
    lsns = changes.column("commit_lsn")
    ends = pc.min_max(lsns).as_py()
    row = {"first": ends["min"], "last": ends["max"], "unplaced": lsns.null_count, "rows": len(lsns)}
    return pa.RecordBatch.from_pylist([row], _ENDS)
