"""Recognizes errors of other systems: a broker, a database, the catalog, storage or Spark itself.

Spark is lazy, so these errors come from any line of a stage, as text of Java; so do our own errors in its
workers. Only this module reads that text. An unknown error may be a bug of ours and keeps its traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from changeledger.config.settings import Settings
from changeledger.model import errors
from changeledger.model.errors import (
    ChangeledgerError,
    ConfigError,
    RowsTooLarge,
    SourceUnavailable,
    SparkUnavailable,
    StoresDisagree,
)
from changeledger.pages.redaction import redacted_message

_MOST = 300
# How much of a line is searched for Java class names, which precede keys of rows and take the square of time.
_MOST_SEARCHED = 2_000
# Everything up to the last Java class name before a message.
_CLASS = re.compile(r"^.*(?:[a-zA-Z_$][\w$]*\.)+[\w$]*(?:Exception|Error)\b[:)]? ?")

# Our own errors, raised in workers, at the end of a Python traceback.
_OF_WORKERS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, ChangeledgerError)
}
_OF_WORKER = re.compile(rf"changeledger\.model\.errors\.({'|'.join(_OF_WORKERS)}): (.*)\n  Remedy: (.*)")
# Data exceptions of SQL: division by zero, text that is not a number, several rows for one value.
_OF_DATA = re.compile(r"\[[A-Z_.]+\] .*SQLSTATE: 2[12]\w{3}")
# Missing refs, snapshots and namespaces. Tables are looked up before.
_OF_REFERENCE = re.compile(
    r"Cannot find (?:matching snapshot|a snapshot|snapshot with) .*"
    r"|Cannot use branch \(does not exist\).*|Namespace does not exist.*"
)


class _Cause(NamedTuple):
    pattern: str
    kind: type[ChangeledgerError]
    what: str
    remedy: str
    # Whether the message may quote values of rows, as Iceberg quotes the keys of a MERGE.
    quotes_rows: bool = False


# A remedy may name the connection of the feed's source, as `{connection}`.
# Marks of errors of Spark's catalog and of this process's own. The control store names its errors itself.
_OF_CATALOG = ("org.apache.iceberg.jdbc", "https://sqlalche.me/")
_CATALOG = _Cause(
    r"UncheckedSQLException|PSQLException|SQLiteException|SQLException|\((?:sqlite3|psycopg)\.\w*Error\)",
    SourceUnavailable,
    "the lake's catalog cannot be used",
    "start that database (CHANGELEDGER_CATALOG names it), or free its file for writing; then clear the "
    "task. If the file is damaged, restore its backup (docs/backup.md)",
)
_GONE = _Cause(
    r"(?:FileNotFoundError|NotFoundException).*\.(?:metadata\.json|avro|parquet|puffin)",
    StoresDisagree,
    "a file that the lake's catalog names is gone",
    "try again: `maintain` and `erase` remove files that somebody may still be reading; if it stays "
    "gone, restore the warehouse and its catalog as of one time, under their old path (docs/backup.md)",
)
# The first match counts, so more specific causes come first: a full disk fails in many ways.
_OF_STORAGE = (
    _Cause(
        r"No space left on device|Disk quota exceeded|SQLITE_FULL|disk is full",
        SourceUnavailable,
        "no disk space is left for the lake, a store or Spark's scratch files",
        "free disk space where CHANGELEDGER_HOME, the warehouse and spark.local.dir are; then clear the task",
    ),
    _Cause(
        r"Read-only file system|SQLITE_READONLY|AccessDeniedException|\(Permission denied\)|PermissionError|"
        r"Mkdirs failed to create|SQLITE_CANTOPEN",
        SourceUnavailable,
        "the lake's files cannot be written",
        "let the jobs' user write CHANGELEDGER_HOME and the warehouse; then clear the task",
    ),
    _Cause(
        r"CommitFailedException|CommitStateUnknownException|ValidationException",
        SourceUnavailable,
        "a commit to the lake did not succeed",
        "nothing, if the next try succeeds; if not, check who else writes the tables, and whether the "
        "catalog's database answers",
        quotes_rows=True,
    ),
)
_OF_OTHERS = (
    _Cause(
        r"NotAuthorizedException|ForbiddenException|UnauthorizedError|ForbiddenError|OAuthError|"
        r"InvalidAccessKeyId|SignatureDoesNotMatch|ACCESS_DENIED|AWS Error .*(?:Forbidden|Access ?Denied)|"
        r"S3Exception: .*Status Code: 403",
        ConfigError,
        "the lake's catalog or store refuses the credentials",
        "correct `token`, `credential` or `s3.*` of CHANGELEDGER_CATALOG, or that user's permissions",
    ),
    _Cause(
        r"CERTIFICATE_VERIFY_FAILED|PKIX path|SSL peer certificate",
        ConfigError,
        "a server's certificate is not trusted",
        "name its authority to each client of the lake (docs/lake.md, 'A private authority')",
    ),
    _Cause(
        r"SdkClientException|S3Exception|NoSuchBucketException|AWS Error|curlCode",
        SourceUnavailable,
        "the lake's store does not answer",
        "check that the store runs, and `s3.*` and `warehouse` of CHANGELEDGER_CATALOG; then clear the task",
    ),
    _Cause(
        r"RESTException|ServiceFailureException|ServiceUnavailableException|ServerError|ServiceUnavailable|"
        r"HTTPConnectionPool|HTTPSConnectionPool|RemoteDisconnected",
        SourceUnavailable,
        "the lake's catalog does not answer",
        "check that the server of CHANGELEDGER_CATALOG runs; then clear the task",
    ),
    _Cause(
        r"password authentication failed|Login failed for user|no pg_hba.conf entry",
        ConfigError,
        "the source refuses the login",
        "correct login, password and certificates of the connection{connection}",
    ),
    _Cause(
        r"permission denied for|permission was denied on",
        ConfigError,
        "the login may not read what the feed needs",
        "grant it (docs/connections.md, 'Grants') on the source of the connection{connection}",
    ),
    _Cause(
        r"PSQLException: (?:Connection to .* refused|The connection attempt failed|This connection has been "
        r"closed|An I/O error occurred|FATAL: (?:terminating connection|the database system is|sorry, too "
        r"many|remaining connection))|SQLServerException: .*(?:TCP/IP connection|Connection reset|connection "
        r"is closed|deadlocked|Read timed out|Socket closed)|SQLITE_BUSY|database is locked",
        SourceUnavailable,
        "the source's database no longer answers",
        "check that it runs, and the connection{connection}; then clear the task",
    ),
    _Cause(
        r"MemoryError|GC overhead limit exceeded|ExecutorLostFailure|Container killed|"
        # A worker killed by the operating system.
        r"Python worker exited unexpectedly",
        SparkUnavailable,
        "Spark has run out of memory, or has lost an executor",
        "give it more memory in the Spark connection (spark.driver.memory, spark.executor.memory), or cut "
        "the window (docs/running.md, 'A long first load')",
    ),
    _Cause(
        # Arrow's offsets have 32 bits.
        r"offset overflow while concatenating arrays|ArrowCapacityError",
        RowsTooLarge,
        "the rows that one process combines have a column of more than 2 GiB",
        "run shorter windows: one process then gets fewer changes of one key or one moment",
    ),
    _Cause(
        r"bigger than spark\.driver\.maxResultSize",
        ConfigError,
        "messages or rows are larger than Spark's driver accepts at once",
        "set spark.driver.maxResultSize in the Spark connection, and spark.driver.memory to more than that; "
        "or cut the window (docs/running.md, 'A long first load')",
    ),
    _Cause(
        r"PLAN_SIZE_LARGER_THAN_MAX|(?:Sent|Received) message larger than max|"
        r"gRPC message exceeds maximum size",
        RowsTooLarge,
        "the window touches more keys than Spark's Connect server accepts in one message",
        "run shorter windows; or run this one without a server (another Spark connection of the feed)",
    ),
    _Cause(
        r"StatusCode\.(?:UNAUTHENTICATED|PERMISSION_DENIED)",
        ConfigError,
        "the proxy in front of Spark's server refuses the token",
        "correct the password of the feed's Spark connection",
    ),
    _Cause(
        r"StatusCode\.UNAVAILABLE|failed to connect to all addresses|SESSION_(?:NOT_FOUND|CLOSED|CHANGED)|"
        r"Answer from Java side is empty|Py4JNetworkError|SparkContext was shut ?down|stopped SparkContext|"
        r"JAVA_GATEWAY_EXITED|All masters are unresponsive|"
        # All sessions of a process share a thread pool, which Connect's client shuts down with any of them.
        r"cannot schedule new futures after shutdown",
        SparkUnavailable,
        "Spark does not answer",
        "check that its server or master runs, and the feed's Spark connection; then clear the task",
    ),
)


def known(error: BaseException, connection: str = "") -> ChangeledgerError | None:
    """Returns the error as one of ours, or None if it is unknown. `connection`: that of the source."""
    if isinstance(error, ChangeledgerError):
        return error
    text = _text(error)
    ours = _OF_WORKER.search(text)
    if ours is not None:
        return _OF_WORKERS[ours[1]](ours[2], ours[3])
    causes = [
        *_OF_STORAGE,
        _GONE,
        *([_CATALOG] if any(mark in text for mark in _OF_CATALOG) else []),
        *_OF_OTHERS,
    ]
    # Ignore stack frames.
    lines = [line.strip() for line in text.splitlines() if not line.lstrip().startswith("at ")]
    for cause in causes:
        fitting = [line for line in lines if re.search(cause.pattern, line, re.IGNORECASE)]
        if fitting:
            # Take the last line: Java prints the cause of an error after it.
            return _explained(cause, fitting[-1], connection)
    return None


def of_data(error: BaseException) -> str | None:
    """Returns Spark's message if the rows made a statement fail (a data exception), else None."""
    said = _OF_DATA.search(_text(error))
    return None if said is None else said[0]


def of_reference(error: BaseException) -> str | None:
    """Returns Spark's message if a branch, tag, snapshot or namespace does not exist, else None."""
    said = _OF_REFERENCE.search(_text(error))
    return None if said is None else said[0]


@contextmanager
def named(connection: str = "") -> Iterator[None]:
    """Raises known errors of other systems as ours, each with its remedy."""
    try:
        yield
    except Exception as error:
        ours = known(error, connection)
        if ours is None or ours is error:
            raise
        raise ours from error


def _explained(cause: _Cause, line: str, connection: str) -> ChangeledgerError:
    # Py4J begins the line of a Java error with a colon.
    begin = line[:_MOST_SEARCHED]
    reason = (_CLASS.sub("", begin) or begin).lstrip(": ")[:_MOST]
    if cause.quotes_rows and Settings().redact_values:
        reason = redacted_message(reason)
    whose = f" {connection!r}" if connection else ""
    return cause.kind(f"{cause.what}: {reason}", cause.remedy.replace("{connection}", whose))


def _text(error: BaseException) -> str:
    """Returns all text of the error, with the stacks of Java causes that pyspark keeps beside the message."""
    parts, seen = [], set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        stacks = (getattr(at, name, None) for name in ("_stackTrace", "_stacktrace"))
        parts += [f"{type(at).__name__}: {at}", *(stack for stack in stacks if isinstance(stack, str))]
        at = at.__cause__ or at.__context__
    return "\n".join(parts)
