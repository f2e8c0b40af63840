"""`changeledger release`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rich.console import Console

from changeledger.cli.lake import opened
from changeledger.config.files import named_feed
from changeledger.config.settings import Settings

if TYPE_CHECKING:
    pass


def add(commands: Any) -> None:
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


def _release_complete(arguments: argparse.Namespace) -> None:
    from changeledger.stages.maintenance.releasing import complete_by_hand  # noqa: PLC0415 - as in `opened`

    feed = named_feed(Settings().feeds, arguments.feed)
    with opened("release complete") as spark:
        done = complete_by_hand(spark, feed, force=arguments.force)
    Console().print(
        f"{feed.feed}: completed: {', '.join(map(str, done))}"
        if done
        else f"{feed.feed}: no release waits to be completed"
    )
