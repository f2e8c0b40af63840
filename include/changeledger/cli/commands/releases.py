"""`changeledger releases` and `changeledger rollback`."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from changeledger.cli.commands import arguments
from changeledger.cli.lake import openable, require_lake
from changeledger.config.files import named_feed
from changeledger.config.settings import Settings
from changeledger.console import terminal
from changeledger.model.errors import ConfigError


def releases(feed_name: arguments.Feed, as_json: arguments.AsJson = False) -> None:
    """List the releases of a feed, the newest first: what each published, and which were taken back."""
    from changeledger.cli.release_tables import COLUMNS, in_words, listed  # noqa: PLC0415 - SQLAlchemy: as in `tables`
    from changeledger.control import ControlStore  # noqa: PLC0415

    feed = named_feed(Settings().feeds, feed_name)
    require_lake(Settings())
    control = ControlStore(Settings().control_url)
    rows = listed(control.releases.of_feed(feed.feed), control.resets.of_feed(feed.feed))
    if as_json:
        terminal.print_json(rows)
    else:
        terminal.print_table(COLUMNS, map(in_words, rows))


def rollback(
    feed_name: arguments.Feed,
    release: Annotated[int, typer.Argument(metavar="RELEASE", help="The release to go back to.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; `changeledger releases` shows it.")],
    keep_position: Annotated[
        bool,
        typer.Option(
            "--keep-position",
            help="The next run does not read again what the releases that are taken back have read.",
        ),
    ] = False,
    by: arguments.By = "",
) -> None:
    """Take releases back: main of all tables of the feed becomes what an earlier release published.

    The next run reads again from there. Raw records and the tags of the releases that are taken back stay, so
    that one can go forward again (docs/running.md, 'Take a release back').
    """
    # Seconds to import: `--help` answers at once.
    from changeledger.control import Asked  # noqa: PLC0415
    from changeledger.stages.maintenance.rolling_back import roll_back  # noqa: PLC0415

    feed = named_feed(Settings().feeds, feed_name)
    if not reason.strip():
        raise ConfigError("--reason is empty: `changeledger releases` shows it", "say why")
    asked = Asked(reason.strip(), by or getpass.getuser(), keep_position)
    with openable("rollback") as session:
        done = roll_back(session, feed, release, asked)
    terminal.console().print(
        f"{feed.feed}: main is release {release} again, by release {done.id}; the next run "
        + ("reads on where the last one ended" if keep_position else "reads again from there")
    )
