"""Writes the outputs of a bucket kernel to data files in the task that runs the kernel.

Otherwise the rows would go to Spark, be kept there, and come back to be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from changeledger.kernels.rows import BucketKernel
from changeledger.lake.file_writes import FILES, Writing, files_as_rows


@dataclass(frozen=True)
class Written:
    """Wraps a bucket kernel: its outputs named in `into` are written and come out as `FILES`.

    A task that runs twice writes twice: commit only the files of a single answer of the workers.
    """

    kernel: BucketKernel
    into: Mapping[str, Writing]

    def __call__(self, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        rows = self.kernel(tables)
        files = {name: files_as_rows(writing.in_files(rows[name])) for name, writing in self.into.items()}
        return {**rows, **files}

    def outputs(self, of_kernel: Mapping[str, pa.Schema]) -> dict[str, pa.Schema]:
        """Returns the output schemas. `of_kernel`: the output schemas of the wrapped kernel."""
        return {**of_kernel, **dict.fromkeys(self.into, FILES)}
