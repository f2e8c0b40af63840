"""`changeledger decode`."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from changeledger.cli.decode.light import load_arrow
from changeledger.cli.decode.pretty import drawn
from changeledger.config.files import load_feed
from changeledger.config.sources import SOURCE_MODELS
from changeledger.model.errors import ConfigError
from changeledger.pages.escaping import json_line

if TYPE_CHECKING:
    pass


def add(commands: Any) -> None:
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


def _decode(arguments: argparse.Namespace) -> None:
    load_arrow()
    # Long to import: `--help` answers at once.
    from changeledger.cli.decode import reader, records  # noqa: PLC0415

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
