"""`changeledger query`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from changeledger.cli.commands import arguments
from changeledger.cli.lake import opened, require_lake
from changeledger.console import terminal
from changeledger.model.errors import ConfigError

if TYPE_CHECKING:
    from changeledger.cli.answers import Answer


def query(
    sql: Annotated[str, typer.Argument(help='For example "SELECT * FROM lake.shop_cdc.dbo_customers".')],
    as_json: arguments.AsJson = False,
    on_spark: Annotated[bool, typer.Option("--spark", help="Run it as Spark SQL, on Spark.")] = False,
) -> None:
    """Run a query of the lake's tables; the lake's catalog is `lake`.

    Answers queries (SELECT, WITH, VALUES, SHOW TABLES, DESCRIBE) in DuckDB's SQL, in a second or two, and
    changes nothing: what could run a program or read another file is refused. A table shows the first rows;
    --json prints all.

    --spark runs Spark SQL on Spark: for data that does not fit into memory, and for what only Spark knows.
    """
    if on_spark:
        _ask_spark(sql, as_json=as_json)
        return
    # Imported here because it takes half a second: `--help` answers at once.
    from changeledger.cli.duckdb_sql import engine  # noqa: PLC0415

    _print(engine.answer(sql), as_json=as_json)


def _ask_spark(sql: str, *, as_json: bool) -> None:
    from changeledger.cli import statement_tables as tables  # noqa: PLC0415 - as above
    from changeledger.read_only_sql.check import checked  # noqa: PLC0415

    statement = checked(sql)
    require_lake()
    tables.require(tables.named(statement))

    from changeledger.cli import spark_sql  # noqa: PLC0415 - seconds to import

    spark_sql.use_utc()
    with opened("query") as spark:
        _print(
            spark_sql.answer(spark, statement, None if as_json else terminal.MOST_ROWS + 1), as_json=as_json
        )


def _print(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        twice = sorted({name for name in answer.columns if answer.columns.count(name) > 1})
        if twice:
            raise ConfigError(
                "columns of the answer have the same name, and JSON would keep only one of them: "
                f"{', '.join(twice)}",
                "give each a name of its own: SELECT a.id AS a_id, b.id AS b_id",
            )
        terminal.print_json(dict(zip(answer.columns, row, strict=True)) for row in answer.rows)
    else:
        terminal.print_table(answer.columns, answer.rows)
