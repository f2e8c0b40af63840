"""`changeledger query`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from changeledger.cli.commands import arguments
from changeledger.cli.lake import fail, opened
from changeledger.console import terminal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def query(
    sql: Annotated[str, typer.Argument(help='For example "SELECT * FROM lake.shop_cdc.dbo_customers".')],
    as_json: arguments.AsJson = False,
) -> None:
    """Print what Spark SQL answers; the lake's catalog is `lake`.

    Answers queries (SELECT, WITH, VALUES, SHOW, DESCRIBE, EXPLAIN) and changes nothing. A table shows the
    first rows; --json prints all of them.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - as in `opened`

    from changeledger.cli import querying  # noqa: PLC0415 - as above

    with opened("query") as spark:
        try:
            _answer(querying.asked(spark, sql), as_json=as_json)
        except AnalysisException as error:
            fail(error.getMessage() or str(error))


def _answer(answer: DataFrame, *, as_json: bool) -> None:
    if as_json:
        terminal.print_json(row.asDict(recursive=True) for row in answer.toLocalIterator())
    else:
        terminal.print_table(answer.columns, answer.limit(terminal.MOST_ROWS + 1).collect())
