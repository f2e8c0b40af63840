"""Recognizes errors of other systems by their texts, with a kind, a one-line cause, and a remedy for each.

The texts are those of Spark 4, PostgreSQL's and SQLite's drivers and Iceberg, most of them from their
sources. `tests/faults/test_gone.py` produces the usual ones for real.
"""

from __future__ import annotations

from time import process_time

import pytest

from changeledger.model.errors import (
    ChangeledgerError,
    ConfigError,
    LeaseHeld,
    RowsTooLarge,
    SourceDataLostError,
    SourceUnavailable,
    SparkUnavailable,
    StoresDisagree,
)
from changeledger.spark import failures

JOB = "An error occurred while calling o99.append.\n: org.apache.spark.SparkException: Job aborted: "
KNOWN = {
    "worker": (
        f"{JOB}x\norg.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File "
        '"kafka_messages.py", line 9, in batches\nchangeledger.model.errors.SourceDataLostError: messages '
        "were removed: t[0]\n  Remedy: run the window again\n\n\tat org.apache.spark.api.python.X",
        SourceDataLostError, "messages were removed: t[0]", "run the window again",
    ),
    "rows in a worker": (
        f"{JOB}x\norg.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File "
        '"rows.py", line 158, in as_batch\nchangeledger.model.errors.RowsTooLarge: 33 rows have a column of '
        "more than 2 GiB\n  Remedy: run shorter windows\n\n\tat org.apache.spark.api.python.X",
        RowsTooLarge, "33 rows have a column of more than 2 GiB", "run shorter windows",
    ),
    "grants": (
        f"{JOB}x\norg.postgresql.util.PSQLException: ERROR: permission denied for table orders__ct",
        ConfigError, "may not read what the feed needs: ERROR: permission denied for table", "Grants",
    ),
    "database": (
        "An error occurred while calling o60.load.\n: org.postgresql.util.PSQLException: Connection to "
        "db:5432 refused. Check that the hostname and port are correct",
        SourceUnavailable,
        "the source's database no longer answers: Connection to db:5432 refused. Check that",
        "'shop_kafka'",
    ),
    "database that ends": (
        f"{JOB}x\norg.postgresql.util.PSQLException: FATAL: terminating connection due to administrator "
        "command",
        SourceUnavailable,
        "no longer answers: FATAL: terminating connection due to administrator command",
        "check that it runs",
    ),
    "SQL Server": (
        ": com.microsoft.sqlserver.jdbc.SQLServerException: The TCP/IP connection to the host db, port "
        '1433 has failed. Error: "Connection refused"',
        SourceUnavailable, "no longer answers: The TCP/IP connection to the host db", "check that it runs",
    ),
    "authority": (
        "javax.net.ssl.SSLHandshakeException: PKIX path building failed: unable to find valid certification "
        "path to requested target",
        ConfigError, "a server's certificate is not trusted: PKIX path building failed", "docs/lake.md",
    ),
    "login": (
        ': org.postgresql.util.PSQLException: FATAL: password authentication failed for user "reader"',
        ConfigError, "the source refuses the login: FATAL: password authentication failed", "'shop_kafka'",
    ),
    "catalog": (
        "An error occurred while calling o40.sql.\n: org.apache.iceberg.jdbc.UncheckedSQLException: Failed "
        "to connect: jdbc:postgresql://db/lake\nCaused by: org.postgresql.util.PSQLException: Connection to "
        "db:5432 refused.",
        SourceUnavailable, "the lake's catalog cannot be used: ", "CHANGELEDGER_CATALOG",
    ),
    "catalog of a Python process": (
        '(psycopg.OperationalError) connection failed: connection to server at "db" failed: Connection '
        "refused\n(Background on this error at: https://sqlalche.me/e/20/e3q8)",
        SourceUnavailable, "catalog cannot be used: connection failed: connection", "docs/backup.md",
    ),
    "locked catalog": (
        ": org.apache.iceberg.jdbc.UncheckedSQLException: Unknown failure\n\tat org.apache.iceberg.jdbc.X\n"
        "Caused by: org.sqlite.SQLiteException: [SQLITE_BUSY] The database file is locked (database is "
        "locked)\n\tat org.sqlite.core.DB.newSQLException: (DB.java:1)",
        SourceUnavailable, "cannot be used: [SQLITE_BUSY] The database file is locked",
        "CHANGELEDGER_CATALOG",
    ),
    # For example, of a reader whose files an erasure removes.
    "file that is gone": (
        "[Errno 2] Failed to open local file '/w/t/snap-4-1.avro'. Detail: [errno 2] No such file",
        StoresDisagree, "a file that the lake's catalog names is gone: ", "try again: ",
    ),
    "full disk": (
        f"{JOB}x\njava.io.IOException: No space left on device\n\tat org.apache.iceberg.jdbc.JdbcCatalog",
        SourceUnavailable, "no disk space is left for the lake", "the warehouse",
    ),
    "memory": (
        f"{JOB}x\njava.lang.OutOfMemoryError: Java heap space", SparkUnavailable,
        "Spark has run out of memory, or has lost an executor: Java heap space", "spark.driver.memory",
    ),
    # A worker that the kernel has killed, or Arrow's error in one (`ArrowMemoryError`).
    "memory of a worker": (
        f"{JOB}x\nCaused by: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n\t"
        "at org.apache.spark.api.python.X\nCaused by: java.io.EOFException",
        SparkUnavailable, "Python worker exited unexpectedly (crashed)", "memory",
    ),
    "memory of Arrow": (
        f"{JOB}x\npyarrow.lib.ArrowMemoryError: malloc of size 2147483648 failed",
        SparkUnavailable, "malloc of size 2147483648 failed", "memory",
    ),
    "arrays of Arrow": (
        f"{JOB}x\npyarrow.lib.ArrowInvalid: offset overflow while concatenating arrays, consider casting "
        "input from `string` to `large_string` first.",
        RowsTooLarge, "offset overflow while concatenating arrays", "run shorter windows",
    ),
    "answers": (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Total size of serialized results "
        "of 4 tasks (1033.4 MiB) is bigger than spark.driver.maxResultSize (1024.0 MiB)",
        ConfigError, "Total size of serialized results of 4 tasks", "spark.driver.maxResultSize",
    ),
    "Connect": (
        '<_MultiThreadedRendezvous of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\t'
        'details = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:15002"',
        SparkUnavailable, "Spark does not answer: ", "Spark connection",
    ),
    "a message of Connect": (
        "<_MultiThreadedRendezvous of RPC that terminated with:\n\tstatus = StatusCode.RESOURCE_EXHAUSTED\n\t"
        'details = "CLIENT: Sent message larger than max (230688398 vs. 134217728)"',
        RowsTooLarge, "Sent message larger than max (230688398 vs. 134217728)", "run shorter windows",
    ),
    "a plan of Connect": (
        "(org.apache.spark.SparkSQLException) [CONNECT_INVALID_PLAN.PLAN_SIZE_LARGER_THAN_MAX] The Spark "
        "Connect plan is invalid. The plan size is larger than max (unknown vs. 536870912)",
        RowsTooLarge, "The plan size is larger than max", "run shorter windows",
    ),
    "a token": (
        '<_MultiThreadedRendezvous of RPC that terminated with:\n\tstatus = StatusCode.UNAUTHENTICATED\n\t'
        'details = "wrong token"',
        ConfigError, "the proxy in front of Spark's server refuses the token: ", "password",
    ),
    "driver": (
        "Answer from Java side is empty", SparkUnavailable, "Spark does not answer: ", "Spark connection",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_error_has_its_cause_and_a_remedy(name: str) -> None:
    text, kind, message, remedy = KNOWN[name]
    raised = FileNotFoundError if kind is StoresDisagree else RuntimeError
    error = failures.known(raised(text), "shop_kafka")
    assert type(error) is kind
    assert message in error.message
    assert remedy in error.remedy
    assert "\n" not in error.message
    assert "Exception: " not in error.message


def test_what_nobody_knows_keeps_its_traceback() -> None:
    for error in (KeyError("x"), RuntimeError("[DIVIDE_BY_ZERO] Division by zero.")):
        assert failures.known(error) is None
        with pytest.raises(type(error)), failures.named():
            raise error


def test_the_cause_may_stand_beside_the_message() -> None:
    """pyspark keeps Java's stack in the exception. Python's `__cause__` counts, too."""
    error = RuntimeError("[WRITING_JOB_ABORTED] Writing job aborted")
    error._stackTrace = KNOWN["database"][0]  # type: ignore[attr-defined]
    assert type(failures.known(error)) is SourceUnavailable
    outer = ValueError("outer")
    outer.__cause__ = RuntimeError(KNOWN["memory"][0])
    assert type(failures.known(outer)) is SparkUnavailable


def test_our_own_errors_are_left_alone() -> None:
    held = LeaseHeld("No space left on device", "wait")
    with pytest.raises(ChangeledgerError) as raised, failures.named():
        raise held
    assert raised.value is held


@pytest.mark.parametrize("hidden", ["false", "true"])
def test_the_keys_that_a_commit_looks_for(monkeypatch: pytest.MonkeyPatch, hidden: str) -> None:
    """The message of Iceberg's MergingSnapshotProducer.validateAddedDataFiles."""
    monkeypatch.setenv("CHANGELEDGER_REDACT_VALUES", hidden)
    said = 'Found conflicting files that can contain records matching ref(name="name") == "Ann": [a.parquet]'
    error = failures.known(RuntimeError(f"org.apache.iceberg.exceptions.ValidationException: {said}"))
    assert error is not None
    assert "a commit to the lake did not succeed" in str(error)
    assert ("Ann" in str(error)) == (hidden == "false")


def test_a_long_key_takes_no_time() -> None:
    began = process_time()
    error = failures.known(Exception(f"org.apache.iceberg.exceptions.ValidationException: {'a' * 30_000}"))
    assert str(error).partition(": ")[2].startswith("aaa")
    assert process_time() - began < 2
