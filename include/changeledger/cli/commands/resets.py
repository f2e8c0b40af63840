"""`changeledger reset`."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from changeledger.cli.commands import arguments
from changeledger.cli.lake import confirm, openable
from changeledger.config.feed import Feed
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
    by: Annotated[str, typer.Option(metavar="NAME", help="Who asks; your login's name by default.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Load a feed again from its source's beginning; the published tables stay until the new ones are proven.

    The feed's next run builds all tables anew. It publishes them in one release if its audit passes, which
    compares them with those that are published. Raw records, earlier releases and their tags stay
    (docs/running.md, 'Load a feed again').
    """
    feed = named_feed(Settings().feeds, feed_name)
    if not reason.strip():
        raise ConfigError("--reason is empty: `changeledger releases` shows it", "say why")
    who = by or getpass.getuser()
    if withdraw:
        _withdraw(feed, who, reason.strip())
        return
    # Seconds to import: `--help` answers at once.
    from changeledger.control import AskedReset  # noqa: PLC0415
    from changeledger.stages.maintenance.resetting import ask  # noqa: PLC0415

    with openable("reset") as session:
        if not yes:
            confirm(_QUESTION.format(feed=feed.feed), feed.feed, "reset")
        row = ask(session, feed, AskedReset(reason.strip(), who, accept_gap))
    _say(
        f"{feed.feed}: reset {row.id}: the next run reads from the source's beginning; until its release the "
        "published tables stay as they are"
    )


def _withdraw(feed: Feed, by: str, reason: str) -> None:
    from changeledger.stages.maintenance.resetting import withdraw  # noqa: PLC0415 - as in `reset`

    with openable("reset"):
        row = withdraw(feed, by, reason)
    _say(f"{feed.feed}: reset {row.id} is withdrawn; the next run goes on from what is published")


def _say(text: str) -> None:
    terminal.console().print(text, highlight=False)
