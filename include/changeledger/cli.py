"""`changeledger`: ask the lake of this installation, or see how a record is read."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from changeledger.config import SOURCE_MODELS, Feed, Settings, load_feed, load_feeds
from changeledger.databases import NEEDED, TAKES, named_database
from changeledger.decoding.pretty import drawn, quarantined
from changeledger.errors import ChangeledgerError, ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from changeledger.inspection.quarantine import Chosen

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
    status = commands.add_parser(
        "status", help="how the feeds stand: released to when, pending, quarantine, doubts"
    )
    status.add_argument("feed", nargs="*", help="only these; all when none is named")
    status.add_argument("--json", action="store_true", help="one JSON object a feed")
    status.set_defaults(run=_status)
    compare = commands.add_parser(
        "compare", help="compare the feeds of one database, change by change, and write the report"
    )
    compare.add_argument("database", help="as the feeds' YAML names it")
    compare.add_argument("--again", action="store_true", help="all there is, not only what is new since")
    compare.set_defaults(run=_compare)
    verify = commands.add_parser(
        "verify", help="hold what is published against rows read of the source, and write the page"
    )
    verify.add_argument("database", help="as the feeds' YAML names it")
    verify.add_argument("--feed", default="", help="only this one; all of the database when none is named")
    verify.add_argument(
        "--take",
        choices=TAKES,
        default=NEEDED,
        help="read the source: where nothing waits any more to be proved (the default), anew, or not at all",
    )
    verify.set_defaults(run=_verify)
    quarantine = commands.add_parser("quarantine", help="see records that could not be read, or replay them")
    actions = quarantine.add_subparsers(required=True, metavar="ACTION")
    for name, run, told in (
        ("list", _quarantine_list, "how many records, by table and reason"),
        ("show", _quarantine_show, "the records as they came, with reason and detail"),
        ("replay", _quarantine_replay, "let the feed's next run read them again, after a fix"),
    ):
        action = actions.add_parser(name, help=told)
        action.add_argument("feed", help="the feed's name")
        action.add_argument("--table", help="of this source table only, as the feed names it")
        action.add_argument("--reason", help="with this reason code only")
        action.add_argument(
            "--run", dest="run_id", metavar="RUN", help="of this run only, as `list` names it"
        )
        if name != "replay":
            action.add_argument("--json", action="store_true", help="one JSON object a row")
        action.set_defaults(run=run)
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
    except ChangeledgerError as error:
        _fail(str(error))


def _query(arguments: argparse.Namespace) -> None:
    from pyspark.errors import AnalysisException, ParseException  # noqa: PLC0415 - as in `_lake`

    with _lake("query") as spark:
        try:
            _answer(arguments, spark.sql(arguments.sql))
        except (AnalysisException, ParseException) as error:
            _fail(error.getMessage() or str(error))


@contextmanager
def _lake(command: str) -> Iterator[SparkSession]:
    """A session on the lake of this installation."""
    # Seconds to import: `--help` answers at once.
    from changeledger.storage.session import spark_session  # noqa: PLC0415

    # Spark's Python side would log a wrong query's Java stack, beside the error that we print.
    logging.disable()
    spark = spark_session(f"changeledger {command}")
    try:
        yield spark
    finally:
        spark.stop()


def _answer(arguments: argparse.Namespace, answer: DataFrame) -> None:
    if arguments.json:
        _print_json(answer)
    else:
        _print(answer)


def _chosen(arguments: argparse.Namespace) -> tuple[Feed, Chosen]:
    from changeledger.inspection.quarantine import Chosen  # noqa: PLC0415 - as in `_lake`

    (feed,) = _feeds([arguments.feed])
    return feed, Chosen(arguments.table, arguments.reason, arguments.run_id)


def _feeds(names: Sequence[str]) -> list[Feed]:
    """The feeds of these names; all when there are none."""
    folder = Settings().feeds
    known = load_feeds(folder)
    wrong = [name for name in names if name not in known]
    if wrong:
        raise ConfigError(
            f"there is no feed {wrong[0]!r} in {folder}", f"name one of {', '.join(known) or 'no feeds'}"
        )
    return [known[name] for name in names or known]


def _status(arguments: argparse.Namespace) -> None:
    # Seconds to import: `--help` answers at once.
    from changeledger.inspection import shown, status  # noqa: PLC0415
    from changeledger.storage.control import ControlStore  # noqa: PLC0415

    feeds, control = _feeds(arguments.feed), ControlStore(Settings().control_url)
    with _lake("status") as spark:
        found = [status.gather(spark, control, feed) for feed in feeds]
    if not arguments.json:
        Console(highlight=False).print(shown.drawn(found))
        return
    for one in found:
        print(json.dumps(asdict(one), ensure_ascii=False, default=str))  # noqa: T201


def _compare(arguments: argparse.Namespace) -> None:
    from changeledger.inspection.comparing import compare_and_report, drawn_comparison  # noqa: PLC0415 - as above

    settings = Settings()
    feeds = load_feeds(settings.feeds)
    database = named_database(settings, feeds, arguments.database)
    with _lake("compare") as spark:
        try:
            compare_and_report(spark, database, feeds, arguments.again)
        finally:
            _console().print(drawn_comparison(database.database))
            print(f"the report: {database.report(settings)}")  # noqa: T201


def _verify(arguments: argparse.Namespace) -> None:
    from changeledger.inspection.verifying import drawn_proofs, verify_and_report  # noqa: PLC0415 - as above

    settings = Settings()
    feeds = load_feeds(settings.feeds)
    database = named_database(settings, feeds, arguments.database)
    with _lake("verify") as spark:
        try:
            verify_and_report(spark, database, feeds, arguments.take, arguments.feed)
        finally:
            _console().print(drawn_proofs(database.database))
            print(f"the page: {database.proofs(settings)}")  # noqa: T201


def _quarantine_list(arguments: argparse.Namespace) -> None:
    from changeledger.inspection import quarantine  # noqa: PLC0415 - as in `_lake`

    feed, chosen = _chosen(arguments)
    with _lake("quarantine") as spark:
        _answer(arguments, quarantine.summary(quarantine.records(spark, feed, chosen)))


def _quarantine_show(arguments: argparse.Namespace) -> None:
    from changeledger.inspection import quarantine  # noqa: PLC0415 - as in `_lake`

    feed, chosen = _chosen(arguments)
    with _lake("quarantine") as spark:
        for row in quarantine.records(spark, feed, chosen).toLocalIterator():
            told = row.asDict(recursive=True)
            for name in ("raw_key", "raw_value"):
                told[name] = _text(told[name])
            if arguments.json:
                print(json.dumps(told, ensure_ascii=False, default=_shown))  # noqa: T201
            else:
                Console(highlight=False).print(quarantined(told))


def _quarantine_replay(arguments: argparse.Namespace) -> None:
    from changeledger.inspection import quarantine  # noqa: PLC0415 - as in `_lake`

    feed, chosen = _chosen(arguments)
    with _lake("quarantine") as spark:
        count = quarantine.replay(spark, feed, chosen)
    print(f"{count} records are read again by the next run of {feed.feed}: trigger it now, or wait for it")  # noqa: T201


def _text(raw: bytes | None) -> str | None:
    """Raw bytes as text where they are text, else as 0x and hex."""
    if raw is None:
        return None
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError:
        return _shown(raw)


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:
        # Piped: lines as wide as they are, instead of cut to a terminal's 80 columns.
        console.width = 100_000
    return console


def _print(answer: DataFrame) -> None:
    rows = answer.limit(_MOST_ROWS + 1).collect()
    grid = Table(*answer.columns)
    for row in rows[:_MOST_ROWS]:
        grid.add_row(*(_shown(value) for value in row))
    console = _console()
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
    schemas = reader.schemas_of(feed)
    spark = session_without_lake("changeledger decode")
    try:
        for result in reader.results(spark, feed, told, contracts, schemas):
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
