"""The first wrong row of comparison findings or drift, for error messages."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from changeledger.config.settings import Settings
from changeledger.lake import iceberg
from changeledger.pages.escaping import escaped_line
from changeledger.pages.redaction import REDACTED


def first_row(spark: SparkSession, table: str, column: str, ids: Collection[str]) -> str:
    """Returns a sentence on the first row for the end of an error message, or "" if there is no row.

    `column`: the column that has the `ids`.
    """
    rows = iceberg.read(spark, table).where(F.col(column).isin(list(ids)))
    first = (
        rows.orderBy("committed_at", "feed", "table", "key").select("feed", "table", "key", "verdict").first()
    )
    if first is None:
        return ""
    key = REDACTED if Settings().redact_values else escaped_line(str(first["key"]))
    return f". The first: {first['feed']} {first['table']}, key {key}: {first['verdict']}"
