"""`changeledger compare` and `changeledger verify`."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from changeledger.cli.commands import arguments
from changeledger.cli.lake import control_store, database_of, opened
from changeledger.config.database import AUTO, Database, Snapshot
from changeledger.config.feed import Feed
from changeledger.config.object_path import PagePath
from changeledger.config.settings import Settings
from changeledger.console import terminal
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import choice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OneFeed = Annotated[str, typer.Option("--feed", help="Only this feed, instead of all of the database.")]
_Snapshot = Annotated[
    Snapshot,
    typer.Option(
        help=(
            "When to read the source. auto: if no snapshot waits for its proof; fresh: always; reuse: never."
        )
    ),
]


@contextmanager
def _work(
    command: str, name: str, page_of: Callable[[Database, Settings], PagePath]
) -> Iterator[tuple[SparkSession, Database, dict[str, Feed], PagePath]]:
    """Yields a session, the database with its feeds, and its page. If the command fails, the page says so."""
    # Imported here for the reason given in `opened`.
    from changeledger.control.failures import failure_kept  # noqa: PLC0415
    from changeledger.pages.html import failure_noted  # noqa: PLC0415

    database, feeds = database_of(name)
    page = page_of(database, Settings())
    control_store().leases.require_free(page.parent.name)
    kept = failure_kept(lambda: control_store().failures, page.parent.name)
    with failure_noted(page), kept, opened(command, progress=True) as spark:
        yield spark, database, feeds, page


def compare(
    name: arguments.Database,
    full: Annotated[
        bool,
        typer.Option("--full", help="Compare everything, not only what is new since the last comparison."),
    ] = False,
    accept: Annotated[
        str | None,
        typer.Option(
            metavar="REASON", help="Accept the disagreements so far, for this reason, instead of comparing."
        ),
    ] = None,
    feed: Annotated[str, typer.Option(help="With --accept: only those of this feed.")] = "",
    table: Annotated[str, typer.Option(help="With --accept: only those of this table.")] = "",
) -> None:
    """Compare the feeds of one database, change by change, and write the report.

    What disagrees is compared again in each run, which fails, until the feeds agree or somebody accepts it.
    """
    if accept is not None:
        if full:
            raise ConfigError("--full compares, but --accept does not", "leave one of them out")
        _accept(name, accept, feed, table)
        return
    if feed or table:
        raise ConfigError("--feed and --table belong to --accept", "leave them out, or say --accept REASON")
    from changeledger.cli.outcome_tables import drawn_comparison  # noqa: PLC0415 - as in `opened`
    from changeledger.reports.comparison import compare_and_report  # noqa: PLC0415

    with _work("compare", name, Database.report) as (spark, database, feeds, page):
        try:
            compare_and_report(spark, database, feeds, full)
        finally:
            terminal.console().print(drawn_comparison(database.database))
            print(f"the report: {page}")  # noqa: T201


def _accept(name: str, reason: str, feed: str, table: str) -> None:
    """Accepts what disagrees. Raises ConfigError if nothing disagrees, or if the reason is empty."""
    if not reason.strip():
        raise ConfigError("the reason of --accept is empty, but the report shows it", "say why")
    (database, feeds), by = database_of(name), getpass.getuser()
    accepted = control_store().comparisons.accept(database.database, reason, by, feed, table)
    if not accepted:
        _require_known(database, feeds, feed, table)
        raise ConfigError(
            f"nothing disagrees in {database.database}" + "".join(f", {of}" for of in (feed, table) if of),
            f"see `changeledger compare {database.database}`",
        )
    print(f"accepted by {by}: {accepted} disagreement(s); the next comparison begins after them")  # noqa: T201


def _require_known(database: Database, feeds: Mapping[str, Feed], feed: str, table: str) -> None:
    """Raises ConfigError for a name that the database does not have."""
    of_database = {name: of for name, of in feeds.items() if of.database == database.database}
    if feed and feed not in of_database:
        raise ConfigError(f"the database {database.database} has no feed {feed!r}", choice(feed, of_database))
    chosen = [of_database[feed]] if feed else of_database.values()
    tables = dict.fromkeys(config.table for of in chosen for config in of.tables)
    if table and table.lower() not in map(str.lower, tables):
        raise ConfigError(f"no feed of {database.database} has a table {table!r}", choice(table, tables))


def verify(name: arguments.Database, feed: _OneFeed = "", snapshot: _Snapshot = AUTO) -> None:
    """Compare the published rows with the source's, and write the page."""
    from changeledger.cli.outcome_tables import drawn_proofs  # noqa: PLC0415 - as in `opened`
    from changeledger.reports.proof import verify_and_report  # noqa: PLC0415

    with _work("verify", name, Database.proofs) as (spark, database, feeds, page):
        try:
            verify_and_report(spark, database, feeds, snapshot, feed)
        finally:
            terminal.console().print(drawn_proofs(database.database))
            print(f"the page: {page}")  # noqa: T201
