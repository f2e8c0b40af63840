"""`changeledger`: ask the lake of this installation."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from changeledger.errors import ChangeledgerError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# More than this is for a file, not for a terminal.
_MOST_ROWS = 100


def main(argv: list[str] | None = None) -> None:
    """Run one command; a wrong query or setting ends it with a message and code 1."""
    parser = argparse.ArgumentParser(prog="changeledger", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    query = commands.add_parser("query", help="print what Spark SQL answers; the lake's catalog is `lake`")
    query.add_argument("sql", help='for example "SELECT * FROM lake.shop_cdc.dbo_customers"')
    query.set_defaults(run=_query)
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
    except ChangeledgerError as error:
        _fail(str(error))


def _query(arguments: argparse.Namespace) -> None:
    # Seconds to import: `--help` answers at once.
    from pyspark.errors import AnalysisException, ParseException  # noqa: PLC0415

    from changeledger.storage.session import spark_session  # noqa: PLC0415

    # Spark's Python side would log a wrong query's Java stack, beside the error that we print.
    logging.disable()
    spark = spark_session("changeledger query")
    try:
        _print(spark.sql(arguments.sql))
    except (AnalysisException, ParseException) as error:
        _fail(error.getMessage() or str(error))
    finally:
        spark.stop()


def _print(answer: DataFrame) -> None:
    rows = answer.limit(_MOST_ROWS + 1).collect()
    grid = Table(*answer.columns)
    for row in rows[:_MOST_ROWS]:
        grid.add_row(*(_shown(value) for value in row))
    console = Console()
    if not console.is_terminal:
        # Piped: lines as wide as they are, instead of cut to a terminal's 80 columns.
        console.width = 100_000
    console.print(grid, markup=False)
    more = f"more than {_MOST_ROWS} rows; the first" if len(rows) > _MOST_ROWS else ""
    console.print(f"{more} {min(len(rows), _MOST_ROWS)} rows".strip(), highlight=False)


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"0x{value.hex().upper()}" if isinstance(value, bytes | bytearray) else str(value)


def _fail(message: str) -> None:
    print(message, file=sys.stderr)  # noqa: T201 - the command's own answer
    sys.exit(1)


if __name__ == "__main__":
    main()
