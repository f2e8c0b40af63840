"""pyarrow runs without pandas in short-lived processes and in Spark's workers only."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Prints how many NULLs pyarrow makes of pandas' NaN.
NULLS = "import pandas, pyarrow; print(pyarrow.array(pandas.Series([1.0, None])).null_count)"
# Imports the module that creates pyarrow's first array.
IS_IMPORTED = "import sys, changeledger.kernels.images; print('pandas' in sys.modules)"


def said_by(program: str) -> str:
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return ended.stdout.strip()


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("import pyspark.worker, changeledger.spark.tasks", "False"),
        ("import changeledger.job", "False"),
        ("import changeledger.spark.tasks", "True"),
    ],
)
def test_pandas_is_imported(program: str, expected: str) -> None:
    assert said_by(f"{program}; {IS_IMPORTED}") == expected


@pytest.mark.parametrize(
    "program",
    ["import changeledger.job, changeledger.audit.suites as s; s.load()", "import changeledger.reader"],
)
def test_nan_is_null_where_values_of_pandas_are_expected(program: str) -> None:
    assert said_by(f"{program}; {NULLS}") == "1"
