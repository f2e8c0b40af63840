"""`changeledger reset`."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from changeledger.cli.commands import arguments
from changeledger.cli.lake import confirm, openable
from changeledger.config.files import named_feed
from changeledger.config.settings import Settings
from changeledger.console import terminal
from changeledger.model.errors import ConfigError

_GAP = "The source may have lost records that the feed has read: a snapshot has taken their place."
_WITHDRAW = "Take back a reset that no run has published yet."
_QUESTION = (
    "the next run of {feed} reads all of its source again, and what is built and not released is built "
    "again. Type the feed: "
)


def reset(  # noqa: PLR0913, PLR0917 - the options of a command
    feed_name: arguments.Feed,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; `status` and `releases` show it.")],
    accept_gap: Annotated[bool, typer.Option("--accept-gap", help=_GAP)] = False,
    withdraw: Annotated[bool, typer.Option("--withdraw", help=_WITHDRAW)] = False,
    by: arguments.By = "",
    yes: arguments.Yes = False,
) -> None:
    """Load a feed again from its source's beginning; the published tables stay until the new ones are proven.

    The feed's next run builds all tables anew. It publishes them in one release if its audit passes, which
    compares them with those that are published. Raw records, earlier releases and their tags stay
    (docs/running.md, 'Load a feed again').
    """
    feed = named_feed(Settings().feeds, feed_name)
    if not reason.strip():
        raise ConfigError("--reason is empty: `changeledger releases` shows it", "say why")
    # Seconds to import: `--help` answers at once.
    from changeledger.control import AskedReset  # noqa: PLC0415
    from changeledger.stages.maintenance import resetting  # noqa: PLC0415

    asked = AskedReset(reason.strip(), by or getpass.getuser(), accept_gap)
    with openable("reset") as session:
        if withdraw:
            row = resetting.withdraw(feed, asked.by, asked.reason)
            said = "is withdrawn; the next run goes on from what is published"
        else:
            if not yes:
                confirm(_QUESTION.format(feed=feed.feed), feed.feed, "reset")
            row = resetting.ask(session, feed, asked)
            said = (
                "the next run reads from the source's beginning; until its release the published tables stay "
                "as they are"
            )
    terminal.console().print(f"{feed.feed}: reset {row.id}{' ' if withdraw else ': '}{said}")
