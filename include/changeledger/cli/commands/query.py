"""`changeledger query`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from changeledger.cli.commands import arguments
from changeledger.cli.lake import fail, opened, require_lake
from changeledger.config.settings import Settings
from changeledger.console import terminal

if TYPE_CHECKING:
    from changeledger.cli.statement.check import Statement


def query(
    sql: Annotated[str, typer.Argument(help='For example "SELECT * FROM lake.shop_cdc.dbo_customers".')],
    as_json: arguments.AsJson = False,
) -> None:
    """Run a Spark SQL query; the lake's catalog is `lake`.

    Answers queries (SELECT, WITH, VALUES, SHOW, DESCRIBE, EXPLAIN) of the lake's tables, and changes nothing:
    what could run a program or read another file is refused. A table shows the first rows; --json prints all.

    A SELECT of one table with plain conditions and few rows needs no Spark and takes a second or two.
    """
    # Half a second to import: `--help` answers at once.
    from changeledger.cli import small_query  # noqa: PLC0415
    from changeledger.cli.statement import tables  # noqa: PLC0415
    from changeledger.cli.statement.check import checked  # noqa: PLC0415

    statement = checked(sql)
    require_lake(Settings())
    tables.require(statement)
    answer = small_query.answer(statement)
    if answer is None:
        _ask_spark(statement, as_json=as_json)
    else:
        _print(answer.columns, answer.rows, as_json=as_json)


def _ask_spark(statement: Statement, *, as_json: bool) -> None:
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - seconds to import

    from changeledger.cli import querying  # noqa: PLC0415 - as above

    with opened("query") as spark:
        try:
            answer = querying.asked(spark, statement)
            shown = answer if as_json else answer.limit(terminal.MOST_ROWS + 1)
            rows = (tuple(_plain(cell) for cell in row) for row in shown.toLocalIterator())
            _print(answer.columns, rows, as_json=as_json)
        except AnalysisException as error:
            fail(error.getMessage() or str(error))


def _print(columns: list[str], rows: Iterable[tuple[object, ...]], *, as_json: bool) -> None:
    if as_json:
        terminal.print_json(dict(zip(columns, row, strict=True)) for row in rows)
    else:
        terminal.print_table(columns, rows)


def _plain(cell: Any) -> object:
    """Structs as dicts."""
    if isinstance(cell, list):
        return [_plain(member) for member in cell]
    return cell.asDict(recursive=True) if hasattr(cell, "asDict") else cell
