"""`changeledger status`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console

from changeledger.cli.lake import readable, require_lake
from changeledger.config.files import named_feed
from changeledger.config.settings import Settings
from changeledger.pages.escaping import json_line

if TYPE_CHECKING:
    pass


def add(commands: Any) -> None:
    status = commands.add_parser(
        "status", help="how the feeds stand: released to when, late, pending, quarantine, warnings"
    )
    status.add_argument("feed", nargs="*", help="only these; all when none is named")
    status.add_argument("--json", action="store_true", help="one JSON object a feed")
    status.set_defaults(run=_status)


def _status(arguments: argparse.Namespace) -> None:
    # Seconds to import: `--help` answers at once.
    from changeledger.cli import status, status_tables  # noqa: PLC0415
    from changeledger.control import ControlStore  # noqa: PLC0415

    named = [named_feed(Settings().feeds, name) for name in arguments.feed]
    feeds, broken = ({}, False) if named else readable()
    require_lake(Settings())
    control = ControlStore(Settings().control_url)
    found = [status.gather(control, feed) for feed in named or feeds.values()]
    if arguments.json:
        for one in found:
            print(json_line(asdict(one)))  # noqa: T201
    else:
        Console(highlight=False).print(status_tables.drawn(found))
    if broken or any(one.late for one in found):
        sys.exit(1)
