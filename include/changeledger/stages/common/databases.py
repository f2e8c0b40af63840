"""What comparisons and proofs of a database share: their lease, and the first wrong row in their errors."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from changeledger.config.settings import Settings
from changeledger.control import PROCESS_SECONDS, ControlStore, holder_here, lease_held
from changeledger.lake import iceberg
from changeledger.pages.escaping import escaped_line
from changeledger.pages.redaction import REDACTED


def lease(control: ControlStore, name: str) -> AbstractContextManager[None]:
    """The lease of a database's comparison or proofs, by the name that `model.database_work` gives it; or, by
    the name of their namespace, of the tables that all databases share.

    Raises LeaseHeld while another process has it: the same work, or an erasure of what it would read.
    """
    return lease_held(control.leases, name, holder_here(name), PROCESS_SECONDS)


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
