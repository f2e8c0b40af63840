"""`changeledger query`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from changeledger.cli.lake import fail, opened
from changeledger.console import terminal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def add(commands: Any) -> None:
    query = commands.add_parser(
        "query",
        help="print what Spark SQL answers; the lake's catalog is `lake`",
        description="Answers queries (SELECT, WITH, VALUES, SHOW, DESCRIBE, EXPLAIN) and changes nothing.",
    )
    query.add_argument("sql", help='for example "SELECT * FROM lake.shop_cdc.dbo_customers"')
    query.add_argument("--json", action="store_true", help="one JSON object a row, all rows")
    query.set_defaults(run=_query)


def _query(arguments: argparse.Namespace) -> None:
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - as in `opened`

    from changeledger.cli import querying  # noqa: PLC0415 - as above

    with opened("query") as spark:
        try:
            _answer(arguments, querying.asked(spark, arguments.sql))
        except AnalysisException as error:
            fail(error.getMessage() or str(error))


def _answer(arguments: argparse.Namespace, answer: DataFrame) -> None:
    if arguments.json:
        terminal.print_json(row.asDict(recursive=True) for row in answer.toLocalIterator())
    else:
        terminal.print_table(answer.columns, answer.limit(terminal.MOST_ROWS + 1).collect())
