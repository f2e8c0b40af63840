"""`changeledger status`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from changeledger.cli.commands import arguments
from changeledger.cli.lake import readable, require_lake
from changeledger.config.files import named_feed
from changeledger.config.settings import Settings
from changeledger.pages.escaping import json_line


def status(
    feed: Annotated[list[str] | None, typer.Argument(help="Only these; all when none is named.")] = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Show how far each feed is released, and what has failed, is late, pending, quarantined or flagged.

    Ends with 1 if the last run of a feed has failed, or a source is late.
    """
    # Seconds to import: `--help` answers at once.
    from changeledger.cli import status_tables  # noqa: PLC0415
    from changeledger.control import ControlStore  # noqa: PLC0415
    from changeledger.state.status import gather  # noqa: PLC0415

    named = [named_feed(Settings().feeds, name) for name in feed or []]
    feeds, broken = ({}, False) if named else readable()
    require_lake(Settings())
    control = ControlStore(Settings().control_url)
    statuses = [gather(control, feed) for feed in named or feeds.values()]
    if as_json:
        for feed_status in statuses:
            print(json_line(asdict(feed_status)))  # noqa: T201
    else:
        Console(highlight=False).print(status_tables.drawn(statuses))
    if broken or any(feed.late or feed.failure for feed in statuses):
        sys.exit(1)
