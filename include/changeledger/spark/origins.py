"""Where rows that Spark's workers carry come from."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from changeledger.spark.tasks import InParts


@dataclass(frozen=True, eq=False)
class Origin:
    """Where rows come from. `rows`: how many there are, about."""

    rows: int

    @property
    def counted(self) -> Hashable:
        """What these rows are counted with, once for all origins that have it."""
        return self


@dataclass(frozen=True, eq=False)
class Read(Origin):
    """Parts that workers read."""

    source: InParts


@dataclass(frozen=True, eq=False)
class OfSpark(Origin):
    """A DataFrame of Spark's own rows."""

    frame: DataFrame
    schema: pa.Schema


@dataclass(frozen=True, eq=False)
class Made(Origin):
    """What kernels of buckets have made: the rows of one part of packed ones, the table's and the output's.

    How many rows each table has is not known. `rows` are those of all tables, so they count once for an
    output: counted once a table, the next step would have as many more buckets, and each table as many files.
    """

    packed: DataFrame
    table: int
    output: str

    @property
    def part(self) -> str:
        return f"{self.table}/{self.output}"

    @property
    def counted(self) -> Hashable:
        return id(self.packed), self.output
