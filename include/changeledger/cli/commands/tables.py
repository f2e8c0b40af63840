"""`changeledger tables`."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from changeledger.cli.commands import arguments
from changeledger.cli.lake import require_lake
from changeledger.config.files import named_feed
from changeledger.config.settings import Settings
from changeledger.console import terminal
from changeledger.model.errors import ConfigError

_COLUMNS = ("table", "state", "lacking", "since", "until", "declined")


def tables(
    feed_name: arguments.Feed,
    decline: Annotated[
        str, typer.Option(metavar="TABLE", help="Nobody wants the earlier changes that this table lacks.")
    ] = "",
    reason: Annotated[str, typer.Option(help="With --decline: why.")] = "",
    as_json: arguments.AsJson = False,
) -> None:
    """List the tables of a feed: which are read, which lack earlier changes, which were removed."""
    from changeledger.control import ControlStore  # noqa: PLC0415 - SQLAlchemy: `--help` answers at once

    feed = named_feed(Settings().feeds, feed_name)
    require_lake(Settings())
    control = ControlStore(Settings().control_url)
    if decline:
        config = feed.table(decline)
        name = decline if config is None else config.table
        if not reason:
            raise ConfigError("--decline needs a --reason: `changeledger tables` shows it", "say why")
        if not control.feed_tables.decline(feed.feed, name, reason, getpass.getuser()):
            raise ConfigError(
                f"{feed.feed}: {name} lacks no earlier changes", f"see `changeledger tables {feed.feed}`"
            )
    rows = []
    for row in control.feed_tables.of_feed(feed.feed).values():
        state = "removed" if feed.table(row.table) is None else "incomplete" if row.lacking else "read"
        declined = row.declined_reason and f"{row.declined_reason} ({row.declined_by})"
        times = (None if at is None else at.isoformat() for at in (row.since, row.until))
        rows.append(dict(zip(_COLUMNS, (row.table, state, row.lacking, *times, declined), strict=True)))
    if as_json:
        terminal.print_json(rows)
    else:
        terminal.print_table(_COLUMNS, (row.values() for row in rows))
