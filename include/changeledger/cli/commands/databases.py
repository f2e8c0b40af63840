"""`changeledger compare` and `changeledger verify`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from changeledger.cli.lake import opened, readable, require_lake
from changeledger.config.database import NEEDED, TAKES, named_database
from changeledger.config.settings import Settings
from changeledger.console import terminal

if TYPE_CHECKING:
    pass


def add(commands: Any) -> None:
    compare = commands.add_parser(
        "compare", help="compare the feeds of one database, change by change, and write the report"
    )
    compare.add_argument("database", help="as the feeds' YAML names it")
    compare.add_argument("--again", action="store_true", help="all there is, not only what is new since")
    compare.set_defaults(run=_compare)
    verify = commands.add_parser(
        "verify", help="compare what is published with rows of the source, and write the page"
    )
    verify.add_argument("database", help="as the feeds' YAML names it")
    verify.add_argument("--feed", default="", help="only this one; all of the database when none is named")
    verify.add_argument(
        "--take",
        choices=TAKES,
        default=NEEDED,
        help="read the source: if no snapshot waits for its proof (the default), always, or not at all",
    )
    verify.set_defaults(run=_verify)


def _compare(arguments: argparse.Namespace) -> None:
    from changeledger.cli.compare import compare_and_report, drawn_comparison  # noqa: PLC0415 - as above
    from changeledger.pages.html import failure_noted  # noqa: PLC0415 - as above

    settings = Settings()
    feeds, _ = readable()
    database = named_database(settings, feeds, arguments.database)
    require_lake(settings)
    page = database.report(settings)
    with failure_noted(page), opened("compare", progress=True) as spark:
        try:
            compare_and_report(spark, database, feeds, arguments.again)
        finally:
            terminal.console().print(drawn_comparison(database.database))
            print(f"the report: {page}")  # noqa: T201


def _verify(arguments: argparse.Namespace) -> None:
    from changeledger.cli.verify import drawn_proofs, verify_and_report  # noqa: PLC0415 - as above
    from changeledger.pages.html import failure_noted  # noqa: PLC0415 - as above

    settings = Settings()
    feeds, _ = readable()
    database = named_database(settings, feeds, arguments.database)
    require_lake(settings)
    page = database.proofs(settings)
    with failure_noted(page), opened("verify", progress=True) as spark:
        try:
            verify_and_report(spark, database, feeds, arguments.take, arguments.feed)
        finally:
            terminal.console().print(drawn_proofs(database.database))
            print(f"the page: {page}")  # noqa: T201
