"""`changeledger`: ask the lake of this installation, or see how a record is read."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from changeledger.config import SOURCE_MODELS, load_feed
from changeledger.decoding.pretty import drawn
from changeledger.errors import ChangeledgerError, ConfigError

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
    query.add_argument("--json", action="store_true", help="one JSON object a row, all rows")
    query.set_defaults(run=_query)
    decode = commands.add_parser(
        "decode",
        help="show how messages or rows are read",
        description="Reads records as JSON lines and prints one JSON line for what became of each "
        "(docs/decode.md has the members). Needs no Kafka, no database and no lake.",
    )
    decode.add_argument("--dialect", required=True, choices=sorted(SOURCE_MODELS))
    decode.add_argument("--feed", type=Path, metavar="FILE", help="the feed's YAML file, for its settings")
    decode.add_argument(
        "--contract", type=Path, metavar="FILE", help="a table's columns and key (YAML, JSON)"
    )
    decode.add_argument("--pretty", action="store_true", help="draw each change for people")
    decode.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="JSON lines; standard input if none"
    )
    decode.set_defaults(run=_decode)
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
        answer = spark.sql(arguments.sql)
        if arguments.json:
            _print_json(answer)
        else:
            _print(answer)
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


def _print_json(answer: DataFrame) -> None:
    for row in answer.toLocalIterator():
        print(json.dumps(row.asDict(recursive=True), ensure_ascii=False, default=_shown))  # noqa: T201


def _decode(arguments: argparse.Namespace) -> None:
    # Seconds to import: `--help` answers at once.
    from changeledger.decoding import reader, records  # noqa: PLC0415
    from changeledger.storage.session import session_without_lake  # noqa: PLC0415

    lines = _lines(arguments.file)
    contracts = records.contracts(arguments.contract) if arguments.contract else {}
    of_messages = reader.is_on_kafka(arguments.dialect)
    told = records.messages(lines) if of_messages else records.rows(lines)
    feed = load_feed(arguments.feed) if arguments.feed else reader.feed_of(arguments.dialect, told)
    if feed.dialect != arguments.dialect:
        raise ConfigError(
            f"{arguments.feed} is a feed of the dialect {feed.dialect}", f"say --dialect {feed.dialect}"
        )
    logging.disable()
    console = Console(highlight=False)
    spark = session_without_lake("changeledger decode")
    try:
        for result in reader.results(spark, feed, told, contracts):
            if arguments.pretty:
                console.print(drawn(result))
            else:
                print(json.dumps(result, ensure_ascii=False))  # noqa: T201
    finally:
        spark.stop()


def _lines(path: Path | None) -> list[bytes]:
    """The lines that are not blank, as bytes: one that is not UTF-8 is the fault of its record alone."""
    try:
        data = sys.stdin.buffer.read() if path is None else path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "name a file of JSON lines") from error
    return [line for line in data.split(b"\n") if line.strip()]


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"0x{value.hex().upper()}" if isinstance(value, bytes | bytearray) else str(value)


def _fail(message: str) -> None:
    print(message, file=sys.stderr)  # noqa: T201 - the command's own answer
    sys.exit(1)


if __name__ == "__main__":
    main()
