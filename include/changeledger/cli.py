"""`changeledger`: ask the lake of this installation, or see how a record is read."""

from __future__ import annotations

import argparse
import getpass
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from changeledger import terminal
from changeledger.arguments import CommandParser
from changeledger.config import SOURCE_MODELS, Feed, Settings, load_feed, named_feed, readable_feeds
from changeledger.databases import NEEDED, TAKES, named_database
from changeledger.decoding.light import load_arrow
from changeledger.decoding.pretty import drawn, quarantined
from changeledger.errors import ChangeledgerError, ConfigError
from changeledger.escaping import escaped, json_line
from changeledger.storage import failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from changeledger.inspection.quarantine import Chosen

# A store that is a file of this machine: the group is its path.
_EMBEDDED = re.compile(r"(?:sqlite:///|jdbc:sqlite:)(?P<file>[^?]+)")


def main(argv: list[str] | None = None) -> None:
    """Run one command; `CommandParser` says with which code it ends."""
    parser = CommandParser(prog="changeledger", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    query = commands.add_parser(
        "query",
        help="print what Spark SQL answers; the lake's catalog is `lake`",
        description="Answers queries (SELECT, WITH, VALUES, SHOW, DESCRIBE, EXPLAIN) and changes nothing.",
    )
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
        "status", help="how the feeds stand: released to when, late, pending, quarantine, doubts"
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
    _add_release(commands)
    _add_erase(commands)
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
    except Exception as error:
        ours = error if isinstance(error, ChangeledgerError) else failures.known(error)
        if ours is None:
            raise
        _fail(str(ours))


def _add_release(commands: Any) -> None:
    release = commands.add_parser("release", help="go on with a release that was committed and not completed")
    actions = release.add_subparsers(required=True, metavar="ACTION")
    complete = actions.add_parser("complete", help="tag and move the tables that a crash has left behind")
    complete.add_argument("feed", help="the feed's name")
    complete.add_argument(
        "--force",
        action="store_true",
        help="also where somebody else has written a published table: main becomes what was audited, and "
        "what it was stays readable by the tag displaced_<release>",
    )
    complete.set_defaults(run=_release_complete)


def _add_erase(commands: Any) -> None:
    erase = commands.add_parser(
        "erase",
        help="erase the rows of one key, with all that the lake has of them",
        description="Erases from current rows, history, ledger, raw records, quarantine, pending and what "
        "was found of them; older releases can no longer be read. Erase in the source first "
        "(docs/operate.md, 'Erasing a person').",
    )
    erase.add_argument("feed", help="the feed's name")
    erase.add_argument("table", help="the source table, as the feed names it")
    erase.add_argument("key", nargs="+", metavar="COLUMN=VALUE", help="each column of the key, once")
    erase.add_argument("--by", default="", metavar="NAME", help="who asks; your login's name by default")
    erase.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    erase.set_defaults(run=_erase)


def _erase(arguments: argparse.Namespace) -> None:
    from changeledger.stages.erasing import Erasing  # noqa: PLC0415 - as in `_lake`

    feed = named_feed(Settings().feeds, arguments.feed)
    parts = [part.partition("=") for part in arguments.key]
    if not all(name and sign for name, sign, _ in parts) or len({n for n, _, _ in parts}) < len(parts):
        raise ConfigError("the key is named as COLUMN=VALUE, each column once", "for example id=42")
    with _lake("erase") as spark:
        erasing = Erasing.of(spark, feed, arguments.table, {name: value for name, _, value in parts})
        counts = erasing.counts()
        for table, count in counts.items():
            _say(f"{count:>10,}  {table}")
        for key in erasing.linked():
            _say(f"the row has also had the key {key}: erase that, too, where it is the same person's")
        if not arguments.yes:
            question = f"erase these rows of {feed.feed}, and all releases but the newest? Type the table: "
            _confirm(question, arguments.table)
        erased = erasing.erase(arguments.by or getpass.getuser())
    print(f"{sum(erased.values()):,} rows of {len(erased)} tables are erased")  # noqa: T201


def _confirm(question: str, answer: str) -> None:
    """Raises ConfigError where nobody has typed the answer."""
    try:
        typed = input(question)
    except EOFError:
        typed = ""
    if typed.strip() != answer:
        raise ConfigError("nothing was erased: it was not confirmed", f"type {answer}, or say --yes")


def _release_complete(arguments: argparse.Namespace) -> None:
    from changeledger.stages.releasing import complete_by_hand  # noqa: PLC0415 - as in `_lake`

    feed = named_feed(Settings().feeds, arguments.feed)
    with _lake("release complete") as spark:
        done = complete_by_hand(spark, feed, force=arguments.force)
    Console().print(
        f"{feed.feed}: completed: {', '.join(map(str, done))}"
        if done
        else f"{feed.feed}: no release waits to be completed"
    )


def _query(arguments: argparse.Namespace) -> None:
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - as in `_lake`

    from changeledger.inspection import querying  # noqa: PLC0415 - as above

    with _lake("query") as spark:
        try:
            _answer(arguments, querying.asked(spark, arguments.sql))
        except AnalysisException as error:
            _fail(error.getMessage() or str(error))


@contextmanager
def _lake(command: str, progress: bool = False) -> Iterator[SparkSession]:
    """A session on the lake of this installation; our own log lines show the `progress` of a long command."""
    # Seconds to import: `--help` answers at once.
    from changeledger.storage.session import spark_session  # noqa: PLC0415

    _require_lake(Settings())
    # Spark's Python side would log a wrong query's Java stack, beside the error that we print.
    if progress:
        _show_progress()
    else:
        logging.disable()
    with terminal.spark_log(command):
        spark = spark_session(f"changeledger {command}")
    try:
        yield spark
    finally:
        spark.stop()


def _require_lake(settings: Settings) -> None:
    """Raises ConfigError where all is embedded and nothing is there: stores would be made, and be empty."""
    urls = (settings.control_url, settings.catalog_uri)
    files = [Path(found["file"]) for url in urls if (found := _EMBEDDED.match(url))]
    if len(files) == len(urls) and not any(file.exists() for file in files):
        raise ConfigError(
            f"there is no lake in {settings.home}: nothing has been run with it",
            "set CHANGELEDGER_HOME to the folder of the runs (`make up` prints it), or run a feed first",
        )


def _say(text: str) -> None:
    """Beside the answer, at once."""
    print(escaped(text), file=sys.stderr, flush=True)  # noqa: T201


def _show_progress() -> None:
    """Our own log lines on standard error, and nobody else's."""
    logging.getLogger().addHandler(logging.NullHandler())
    lines = logging.StreamHandler()
    lines.setFormatter(terminal.Lines("%(asctime)s %(message)s", "%H:%M:%S"))
    ours = logging.getLogger("changeledger")
    ours.addHandler(lines)
    ours.setLevel(logging.INFO)


def _answer(arguments: argparse.Namespace, answer: DataFrame) -> None:
    if arguments.json:
        terminal.print_json(row.asDict(recursive=True) for row in answer.toLocalIterator())
    else:
        terminal.print_table(answer.columns, answer.limit(terminal.MOST_ROWS + 1).collect())


def _chosen(arguments: argparse.Namespace) -> tuple[Feed, Chosen]:
    from changeledger.inspection.quarantine import Chosen  # noqa: PLC0415 - as in `_lake`

    return named_feed(Settings().feeds, arguments.feed), Chosen(
        arguments.table, arguments.reason, arguments.run_id
    )


def _readable() -> tuple[dict[str, Feed], bool]:
    """All feeds but those whose files are broken, which are named beside the answer; are there such?"""
    feeds, errors = readable_feeds(Settings().feeds)
    for error in errors:
        _say(f"left out: {error}")
    return feeds, bool(errors)


def _status(arguments: argparse.Namespace) -> None:
    # Seconds to import: `--help` answers at once.
    from changeledger.inspection import shown, status  # noqa: PLC0415
    from changeledger.storage.control import ControlStore  # noqa: PLC0415

    named = [named_feed(Settings().feeds, name) for name in arguments.feed]
    readable, broken = ({}, False) if named else _readable()
    _require_lake(Settings())
    control = ControlStore(Settings().control_url)
    found = [status.gather(control, feed) for feed in named or readable.values()]
    if arguments.json:
        for one in found:
            print(json_line(asdict(one)))  # noqa: T201
    else:
        Console(highlight=False).print(shown.drawn(found))
    if broken or any(one.late for one in found):
        sys.exit(1)


def _compare(arguments: argparse.Namespace) -> None:
    from changeledger.inspection.comparing import compare_and_report, drawn_comparison  # noqa: PLC0415 - as above
    from changeledger.pages import failure_noted  # noqa: PLC0415 - as above

    settings = Settings()
    feeds, _ = _readable()
    database = named_database(settings, feeds, arguments.database)
    _require_lake(settings)
    page = database.report(settings)
    with failure_noted(page), _lake("compare", progress=True) as spark:
        try:
            compare_and_report(spark, database, feeds, arguments.again)
        finally:
            terminal.console().print(drawn_comparison(database.database))
            print(f"the report: {page}")  # noqa: T201


def _verify(arguments: argparse.Namespace) -> None:
    from changeledger.inspection.verifying import drawn_proofs, verify_and_report  # noqa: PLC0415 - as above
    from changeledger.pages import failure_noted  # noqa: PLC0415 - as above

    settings = Settings()
    feeds, _ = _readable()
    database = named_database(settings, feeds, arguments.database)
    _require_lake(settings)
    page = database.proofs(settings)
    with failure_noted(page), _lake("verify", progress=True) as spark:
        try:
            verify_and_report(spark, database, feeds, arguments.take, arguments.feed)
        finally:
            terminal.console().print(drawn_proofs(database.database))
            print(f"the page: {page}")  # noqa: T201


def _quarantine_list(arguments: argparse.Namespace) -> None:
    from changeledger.inspection import quarantine  # noqa: PLC0415 - as in `_lake`

    feed, chosen = _chosen(arguments)
    _require_lake(Settings())
    found = quarantine.summary(feed, chosen)
    if arguments.json:
        terminal.print_json(found)
    else:
        terminal.print_table(quarantine.SUMMARY, (row.values() for row in found))


def _quarantine_show(arguments: argparse.Namespace) -> None:
    from changeledger.inspection import quarantine  # noqa: PLC0415 - as in `_lake`

    feed, chosen = _chosen(arguments)
    _require_lake(Settings())
    for record in quarantine.records(feed, chosen):
        for name in ("raw_key", "raw_value"):
            record[name] = terminal.text(record[name])
        if arguments.json:
            print(json_line(record, default=terminal.shown))  # noqa: T201
        else:
            Console(highlight=False).print(quarantined(record))


def _quarantine_replay(arguments: argparse.Namespace) -> None:
    from changeledger.inspection import quarantine  # noqa: PLC0415 - as in `_lake`

    feed, chosen = _chosen(arguments)
    _say(f"puts quarantined records of {feed.feed} on the list that its next run reads again")
    with _lake("quarantine") as spark:
        count = quarantine.replay(spark, feed, chosen, _say)
    print(f"{count} records are read again by the next run of {feed.feed}: trigger it now, or wait for it")  # noqa: T201


def _decode(arguments: argparse.Namespace) -> None:
    load_arrow()
    # Long to import: `--help` answers at once.
    from changeledger.decoding import reader, records  # noqa: PLC0415

    lines = _lines(arguments.file)
    contracts = records.contracts(arguments.contract) if arguments.contract else {}
    of_messages = reader.is_on_kafka(arguments.dialect)
    read = records.messages(lines) if of_messages else records.rows(lines)
    feed = load_feed(arguments.feed) if arguments.feed else reader.feed_of(arguments.dialect, read)
    if feed.dialect != arguments.dialect:
        raise ConfigError(
            f"{arguments.feed} is a feed of the dialect {feed.dialect}", f"say --dialect {feed.dialect}"
        )
    logging.disable()
    console = Console(highlight=False)
    for result in reader.results(feed, read, contracts, reader.schemas_of(feed)):
        if arguments.pretty:
            console.print(drawn(result))
        else:
            print(json_line(result))  # noqa: T201


def _lines(path: Path | None) -> list[bytes]:
    """The lines that are not blank, as bytes: one that is not UTF-8 is the fault of its record alone."""
    try:
        data = sys.stdin.buffer.read() if path is None else path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "name a file of JSON lines") from error
    return [line for line in data.split(b"\n") if line.strip()]


def _fail(message: str) -> None:
    print(escaped(message), file=sys.stderr)  # noqa: T201 - the command's own answer
    sys.exit(1)


if __name__ == "__main__":
    main()
