"""`changeledger decode`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from changeledger.cli.decode.pretty import drawn
from changeledger.config.files import load_feed
from changeledger.config.sources import SOURCE_MODELS
from changeledger.console.arrow_alone import load_arrow
from changeledger.model.errors import ConfigError
from changeledger.pages.escaping import escaped, json_line


def _known(dialect: str) -> str:
    if dialect not in SOURCE_MODELS:
        raise typer.BadParameter(f"{dialect!r} is not one of {', '.join(sorted(SOURCE_MODELS))}")
    return dialect


_Dialect = Annotated[str, typer.Option(help=f"One of {', '.join(sorted(SOURCE_MODELS))}.", callback=_known)]
_File = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="A file of JSON lines; standard input if omitted.")
]


def decode(
    dialect: _Dialect,
    file: _File = None,
    feed_file: Annotated[
        Path | None, typer.Option("--feed", metavar="FILE", help="The feed's YAML file, for its settings.")
    ] = None,
    contract: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A table's columns and key (YAML, JSON).")
    ] = None,
    pretty: Annotated[bool, typer.Option("--pretty", help="Show each change in a form for people.")] = False,
) -> None:
    """Show how messages or rows are read.

    Reads records as JSON lines and prints one JSON line for what became of each (docs/decode.md has the
    fields). Needs no Kafka, no database and no lake.
    """
    load_arrow()
    # Imported here because they are slow to import: `--help` answers at once.
    from changeledger.cli.decode import reader, records  # noqa: PLC0415

    lines = _lines(file)
    contracts = records.contracts(contract) if contract else {}
    of_messages = reader.is_on_kafka(dialect)
    read = records.messages(lines) if of_messages else records.rows(lines)
    feed = load_feed(feed_file) if feed_file else reader.feed_of(dialect, read)
    if feed.dialect != dialect:
        raise ConfigError(
            f"{feed_file} is a feed of the dialect {feed.dialect}", f"use --dialect {feed.dialect}"
        )
    logging.disable()
    console = Console(highlight=False)
    for result in reader.results(feed, read, contracts, reader.schemas_of(feed), _warn):
        if pretty:
            console.print(drawn(result))
        else:
            print(json_line(result))  # noqa: T201


def _warn(text: str) -> None:
    """Prints a warning to standard error, because the results may be piped."""
    print(escaped(f"warning: {text}"), file=sys.stderr)  # noqa: T201


def _lines(path: Path | None) -> list[bytes]:
    """Returns the lines that are not blank, as bytes: one that is not UTF-8 spoils its own record only."""
    try:
        data = sys.stdin.buffer.read() if path is None else path.read_bytes()
    except OSError as error:
        name = path or "standard input"
        raise ConfigError(f"{name} cannot be read: {error.strerror}", "name a file of JSON lines") from error
    return [line for line in data.split(b"\n") if line.strip()]
