"""`changeledger status` and `changeledger tables`."""

from __future__ import annotations

import getpass
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from changeledger.cli.commands import arguments
from changeledger.cli.lake import control_store, readable
from changeledger.config.files import named_feed
from changeledger.config.settings import Settings
from changeledger.console import terminal
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import choice
from changeledger.pages.escaping import json_line

_COLUMNS = ("table", "state", "lacking", "since", "until", "declined")


def status(
    feed: Annotated[list[str] | None, typer.Argument(help="Only these feeds; all if none is named.")] = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Show how far each feed is released, and what has failed, is late, pending, quarantined or flagged.

    Ends with 1 if the last run of a feed has failed, or a source is late.
    """
    # Imported here because they take seconds: `--help` answers at once.
    from changeledger.cli import status_tables  # noqa: PLC0415
    from changeledger.state.status import gather  # noqa: PLC0415

    named = [named_feed(name) for name in feed or []]
    feeds, broken = ({}, False) if named else readable()
    control = control_store()
    if not (named or feeds or broken):
        # An error, because a monitor that reads the exit code would take a wrong folder for healthy feeds.
        raise ConfigError(
            f"there is no feed in {Settings().feeds}",
            "set CHANGELEDGER_FEEDS to the folder of the feed files, or write one (docs/feeds.md)",
        )
    statuses = [gather(control, feed) for feed in named or feeds.values()]
    if as_json:
        for feed_status in statuses:
            print(json_line(asdict(feed_status)))  # noqa: T201
    else:
        Console(highlight=False).print(status_tables.drawn(statuses))
    if broken or any(feed.late or feed.failure for feed in statuses):
        sys.exit(1)


def tables(
    feed_name: arguments.Feed,
    decline: Annotated[
        str, typer.Option(metavar="TABLE", help="Do without the earlier changes that this table lacks.")
    ] = "",
    reason: Annotated[str, typer.Option(help="With --decline: the reason.")] = "",
    as_json: arguments.AsJson = False,
) -> None:
    """List the tables of a feed: which are read, which lack earlier changes, which were removed."""
    if reason and not decline:
        raise ConfigError("--reason is only for --decline", "add --decline TABLE, or leave --reason out")
    feed = named_feed(feed_name)
    control = control_store()
    if decline:
        name = feed.as_listed(decline)
        if not reason.strip():
            raise ConfigError("--decline needs a --reason: `changeledger tables` shows it", "say why")
        if not control.feed_tables.decline(feed.feed, name, reason, getpass.getuser()):
            known = dict.fromkeys(
                [*(config.table for config in feed.tables), *control.feed_tables.of_feed(feed.feed)]
            )
            if name not in known:
                raise ConfigError(f"the feed {feed.feed} has no table {name!r}", choice(name, known))
            raise ConfigError(
                f"{feed.feed}: {name} lacks no earlier changes", f"see `changeledger tables {feed.feed}`"
            )
    rows = []
    for row in control.feed_tables.of_feed(feed.feed).values():
        state = "removed" if feed.table(row.table) is None else "incomplete" if row.lacking else "read"
        declined = row.declined_reason and f"{row.declined_reason} ({row.declined_by})"
        times = (None if at is None else at.isoformat() for at in (row.since, row.until))
        rows.append(dict(zip(_COLUMNS, (row.table, state, row.lacking, *times, declined), strict=True)))
    terminal.print_rows(_COLUMNS, rows, as_json=as_json)
