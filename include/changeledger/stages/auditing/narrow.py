"""The narrow columns in which the audit reads a ledger, a history and current rows.

Rows are found by hashes that Spark computes: of a few, their numbers stand in the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger.audit import built, ids
from changeledger.audit.columns import HASHED, IMAGES, OF_INTERVALS, OF_LEDGER, built_schema
from changeledger.kernels.arrow import RECORD, column
from changeledger.kernels.rows import Here, Rows
from changeledger.model.change import quoted
from changeledger.model.contract import Contract
from changeledger.storage.bounds import between
from changeledger.storage.spread import Spread

HASHES: Final = pa.schema([("hash", pa.int64())])

_PART: Final = "part"


def of_ledger(rows: DataFrame, contract: Contract) -> DataFrame:
    """Ledger rows in these columns."""
    images = []
    for side, (has, own) in zip(("before", "after"), IMAGES, strict=True):
        cells = (F.col(side).getField(c.name).alias(c.name) for c in contract.key)
        images += [F.col(side).isNotNull().alias(has), F.struct(*cells).alias(own)]
    hashes = (F.expr(f"xxhash64({what})").alias(name) for name, what in _hashed(contract).items())
    return rows.select("key", "previous_key", *(name for name, _ in OF_LEDGER), *images, *hashes)


def _hashed(contract: Contract) -> dict[str, str]:
    """What each of `HASHED` is a hash of."""
    names = [quoted(c.name) for c in contract.key]
    of_keys = (", ".join(f"{key}.{name}" for name in names) for key in ("key", "previous_key"))
    return dict(
        zip(HASHED, (*of_keys, "record", "paired_record", "change_id", "paired_change_id"), strict=True)
    )


def as_built(rows: DataFrame, contract: Contract) -> DataFrame:
    """Intervals or current rows in these columns."""
    names = [quoted(c.name) for c in contract.key]
    there = set(rows.columns)
    return rows.select(
        F.struct(*names).alias("key"),
        F.expr(f"xxhash64({', '.join(names)})").alias("key_hash"),
        "_change_id",
        "_sort_key",
        "_run_id",
        *((F.col(n) if n in there else F.lit(None).cast(kind)).alias(n) for n, kind, _ in OF_INTERVALS),
    )


def found_schema(contract: Contract) -> pa.Schema:
    """Of intervals, current rows and published ids in one table."""
    return pa.schema(
        [(_PART, pa.string()), *built_schema(contract), ("record", RECORD), ("hash", pa.int64())]
    )


def found(rows: DataFrame, part: str, contract: Contract) -> DataFrame:
    """Rows of one of the three parts as rows of all."""
    there = set(rows.columns)
    own = {_PART: F.lit(part)} | ({"_change_id": F.col("id")} if "id" in there else {})
    columns: list[Column] = [
        own.get(name, F.col(name) if name in there else F.lit(None)).alias(name)
        for name in found_schema(contract).names
    ]
    return rows.select(*columns)


def parted(rows: pa.Table, contract: Contract) -> tuple[Here, Here, Here]:
    """Intervals, current rows, and published ids."""
    history, current, published = (
        rows.filter(pc.equal(rows.column(_PART), part))
        for part in (built.HISTORY, built.CURRENT, ids.PUBLISHED)
    )
    names = built_schema(contract).names
    of_ids = published.select(["_change_id", "record", "hash"]).rename_columns(ids.PUBLISHED_IDS.names)
    return Here(history.select(names)), Here(current.select(names)), Here(of_ids)


def hashes(rows: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """`HASHES` of several columns of them."""
    both = pa.concat_arrays([rows.column(name) for name in columns])
    return pa.RecordBatch.from_arrays([pc.unique(both)], schema=HASHES)


def among(key: str, hashes: Here) -> Column:
    """Is the Spark SQL expression one of these? Also true of a few others that share a hash."""
    numbers = pc.unique(column(hashes.table, "hash")).to_pylist()
    return F.expr(f"{key} IN ({', '.join(f'{n}L' for n in numbers)})") if numbers else F.lit(False)


def within(keys: Sequence[pa.Array], contract: Contract) -> Column:
    """Does the row's `key` stand between the ends of these keys? By it files are passed over."""
    whole = pa.concat_arrays(list(keys)).drop_null()
    cells = pa.Table.from_arrays(whole.flatten(), names=[c.name for c in contract.key])
    bounds = between(cells, [(c.name, c.spark_type) for c in contract.key])
    return F.expr(" AND ".join(f"key.{bound}" for bound in bounds) or "true")


def having(rows: DataFrame, key: str, hashes: Rows) -> DataFrame:
    """The rows whose `key` is `among` the hashes."""
    if isinstance(hashes, Spread):
        wanted = hashes.frame.select(F.col("hash").alias("_wanted")).distinct()
        return rows.join(wanted, F.expr(key) == F.col("_wanted"), "left_semi")
    assert isinstance(hashes, Here)
    return rows.where(among(key, hashes))
