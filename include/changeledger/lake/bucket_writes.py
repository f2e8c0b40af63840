"""What a kernel of buckets gives, written into tables by the task that runs it.

Else the rows would go to Spark, be kept there, and come back to be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from changeledger.kernels.rows import BucketKernel
from changeledger.lake.file_writes import FILES, Writing, files_as_rows


@dataclass(frozen=True)
class Written:
    """A kernel of buckets: that one, whose outputs of these names are written and come out as `FILES`.

    A task that runs twice writes twice: commit the files that one answer of the workers has.
    """

    kernel: BucketKernel
    into: Mapping[str, Writing]

    def __call__(self, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        rows = self.kernel(tables)
        files = {name: files_as_rows(writing.in_files(rows[name])) for name, writing in self.into.items()}
        return {**rows, **files}

    def outputs(self, of_kernel: Mapping[str, pa.Schema]) -> dict[str, pa.Schema]:
        """`of_kernel`: those that it gives, of which these are written."""
        return {**of_kernel, **dict.fromkeys(self.into, FILES)}
