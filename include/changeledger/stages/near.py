"""What is published where a window's changes stand: what they may repeat, or be the other half of."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression, Or
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger.contract import Contract
from changeledger.kernels.arrow import column, ledger_schema
from changeledger.kernels.rows import Here, Rows
from changeledger.stages.run import Run
from changeledger.storage import lake, scans
from changeledger.storage.spread import Spread


def nothing(contract: Contract) -> Rows:
    return Here(ledger_schema(contract).empty_table())


def published(this: Run, contract: Contract, changes: Rows) -> Rows | None:
    """The published ledger rows that can be at the positions of the changes; None where there are none."""
    schema = ledger_schema(contract)
    if isinstance(changes, Here):
        return _here(this, contract, changes.table)
    near = between(changes)
    if near is None:
        return None
    rows = lake.read(this.spark, this.names[contract.table].changes).where(near)
    rows = rows.select(*schema.names)
    if rows.isEmpty():
        return None
    assert isinstance(changes, Spread), "rows are here or spread"
    return Spread.of(rows, changes.keep, changes.size, schema)


def _here(this: Run, contract: Contract, changes: pa.Table) -> Rows | None:
    """Of the same commits; others of them are no harm."""
    if not len(changes):
        return None
    lsns = column(changes, "commit_lsn")
    where: BooleanExpression = scans.among({"commit_lsn": lsns})
    if lsns.null_count:
        where = Or(where, scans.is_null("commit_lsn"))
    found = scans.read(this.names[contract.table].changes, where, ledger_schema(contract))
    return Here(found) if len(found) else None


def between(changes: Rows) -> Column | None:
    """A condition that files of the ledger can be passed over by; None where there are no changes."""
    if isinstance(changes, Spread):
        first, last, unplaced, count = _ends(changes.frame)
    else:
        lsns = changes.collected(None).column("commit_lsn")
        ends = pc.min_max(lsns).as_py() if len(lsns) else {"min": None, "max": None}
        first, last, unplaced, count = ends["min"], ends["max"], lsns.null_count, len(lsns)
    if not count:
        return None
    near = F.lit(False) if first is None else F.col("commit_lsn").between(F.lit(first), F.lit(last))
    return near | F.col("commit_lsn").isNull() if unplaced else near


def _ends(changes: DataFrame) -> tuple[bytes | None, bytes | None, int, int]:
    row = changes.agg(
        F.min("commit_lsn").alias("first"),
        F.max("commit_lsn").alias("last"),
        F.count_if(F.col("commit_lsn").isNull()).alias("unplaced"),
        F.count(F.lit(1)).alias("rows"),
    ).collect()[0]
    first, last = (None if end is None else bytes(end) for end in (row["first"], row["last"]))
    return first, last, row["unplaced"], row["rows"]
