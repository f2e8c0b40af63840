"""Lake tables as comparisons and proofs read them: a few columns, by Spark's workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from changeledger.kernels.hashed import by
from changeledger.kernels.rows import BatchKernel, Rows, chosen
from changeledger.kernels.touched import HASHES, Among, HashesOf, known
from changeledger.lake import conditions, iceberg, refs, scans
from changeledger.spark.rows import Workers


class Readable(Protocol):
    """A table; see `Stored`."""

    def rows(self, names: Sequence[str], where: BooleanExpression | None = None) -> Rows: ...


class Ledger(Readable, Protocol):
    """A table of changes; see `Stored`."""

    def between(self, names: Sequence[str], lsns: tuple[bytes, bytes]) -> Rows: ...

    def among(self, names: Sequence[str], column: str, values: Rows) -> Rows: ...


@dataclass(frozen=True)
class Stored:
    """A table at a snapshot. `only`: a kernel that keeps the rows that count, and the column it reads."""

    workers: Workers
    table: str
    snapshot: int | None
    schema: pa.Schema
    only: tuple[BatchKernel, str] | None = None

    @classmethod
    def of(cls, spark: SparkSession, workers: Workers, table: str, at: int | str | None = None) -> Stored:
        """Opens the table `at` a snapshot id or a tag; None: main."""
        if isinstance(at, int):
            return cls(workers, table, at, to_arrow_schema(iceberg.read(spark, table, snapshot=at).schema))
        snapshot = refs.snapshot_of(table, at or refs.MAIN)
        return cls(workers, table, snapshot, to_arrow_schema(iceberg.read(spark, table, at=at).schema))

    def rows(self, names: Sequence[str], where: BooleanExpression | None = None) -> Rows:
        """Reads these columns of the rows that meet the condition."""
        schema = pa.schema([self.schema.field(name) for name in names])
        if self.snapshot is None:
            return self.workers.nothing(schema)
        read = schema
        if self.only is not None and self.only[1] not in names:
            read = schema.append(self.schema.field(self.only[1]))
        rows = scans.scanned(self.workers, self.table, where or AlwaysTrue(), read, self.snapshot)
        if self.only is not None:
            rows = rows.through(self.only[0], read)
        return rows if read is schema else chosen(rows, names)

    def between(self, names: Sequence[str], lsns: tuple[bytes, bytes]) -> Rows:
        """Reads rows between two commit LSNs: from the first, up to but not including the second."""
        since, until = lsns
        is_within = And(conditions.is_from("commit_lsn", since), conditions.is_before("commit_lsn", until))
        return self.rows(names, is_within)

    def among(self, names: Sequence[str], column: str, values: Rows) -> Rows:
        """Reads these columns of the rows whose `column` is among `values`, which have a single column."""
        (name,) = values.schema.names
        hashes = known(values.through(HashesOf(by(name)), HASHES).collected())
        read = list(dict.fromkeys((*names, column)))
        rows = self.rows(read)
        return chosen(rows.through(Among(by(column), hashes), rows.schema), names)
