"""`changeledger releases`, `release complete`, `rollback` and `reset`."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from changeledger.cli.commands import arguments
from changeledger.cli.lake import confirm, control_store, openable, opened
from changeledger.config.files import named_feed
from changeledger.console import terminal
from changeledger.model.errors import ConfigError

app = typer.Typer(
    name="release", help="Complete a release that was committed but not finished.", no_args_is_help=True
)
_GAP = (
    "Accept that the source may have lost records that the feed has read, because a snapshot has taken their "
    "place."
)
_WITHDRAW = "Take back a reset that no run has published yet."
_QUESTION = (
    "the next run of {feed} reads all of its source again, and builds again what was built but not released. "
    "Type the feed: "
)


def releases(feed_name: arguments.Feed, as_json: arguments.AsJson = False) -> None:
    """List the releases of a feed, the newest first: what each published, and which were taken back."""
    from changeledger.cli.release_tables import COLUMNS, in_words, listed  # noqa: PLC0415 - SQLAlchemy: as in `tables`

    feed = named_feed(feed_name)
    control = control_store()
    rows = listed(control.releases.of_feed(feed.feed), control.resets.of_feed(feed.feed))
    if as_json:
        terminal.print_json(rows)
    else:
        terminal.print_table(COLUMNS, map(in_words, rows))


def rollback(
    feed_name: arguments.Feed,
    release: Annotated[int, typer.Argument(metavar="RELEASE", help="The release to go back to.")],
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="The reason; `changeledger releases` shows it.")
    ],
    keep_position: Annotated[
        bool,
        typer.Option(
            "--keep-position",
            help="The next run does not read again the records of the releases that are taken back.",
        ),
    ] = False,
    by: arguments.By = "",
) -> None:
    """Take releases back: main of all tables of the feed becomes what an earlier release published.

    The next run reads again from there. Raw records and the tags of the releases that are taken back stay, so
    that one can go forward again (docs/running.md, 'Take a release back').
    """
    # Imported here because they take seconds: `--help` answers at once.
    from changeledger.control import Asked  # noqa: PLC0415
    from changeledger.stages.maintenance.rolling_back import roll_back  # noqa: PLC0415

    feed = named_feed(feed_name)
    if not reason.strip():
        raise ConfigError("--reason is empty, but `changeledger releases` shows it", "say why")
    asked = Asked(reason.strip(), by or getpass.getuser(), keep_position)
    with openable("rollback") as session:
        done = roll_back(session, feed, release, asked)
    terminal.console().print(
        f"{feed.feed}: main is release {release} again, by release {done.id}; the next run "
        + ("continues where the last one ended" if keep_position else "reads again from there")
    )


@app.callback()
def _group() -> None:
    """Keeps `release` a group, although it has only one command."""


@app.command()
def complete(
    feed: arguments.Feed,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help=(
                "Complete it even if somebody else has written to a published table: main becomes what was "
                "audited, and its previous state stays readable by the tag displaced_<release>."
            ),
        ),
    ] = False,
) -> None:
    """Tag and move the tables that a crash left behind."""
    from changeledger.stages.maintenance.releasing import complete_by_hand  # noqa: PLC0415 - as in `opened`

    named = named_feed(feed)
    with opened("release complete") as spark:
        done = complete_by_hand(spark, named, force=force)
    terminal.console().print(
        f"{feed}: completed: {', '.join(map(str, done))}"
        if done
        else f"{feed}: no release is waiting to be completed"
    )


def reset(  # noqa: PLR0913, PLR0917 - the options of a command
    feed_name: arguments.Feed,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="The reason; `status` and `releases` show it.")],
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
    feed = named_feed(feed_name)
    if not reason.strip():
        raise ConfigError("--reason is empty, but `changeledger releases` shows it", "say why")
    if withdraw and accept_gap:
        raise ConfigError(
            "--accept-gap is for a reset, but --withdraw takes one back", "leave one of them out"
        )
    # Imported here because they take seconds: `--help` answers at once.
    from changeledger.control import AskedReset  # noqa: PLC0415
    from changeledger.stages.maintenance import resetting  # noqa: PLC0415

    asked = AskedReset(reason.strip(), by or getpass.getuser(), accept_gap)
    with openable("reset") as session:
        if withdraw:
            row = resetting.withdraw(feed, asked.by, asked.reason)
            said = "is withdrawn; the next run continues from what is published"
        else:
            if not yes:
                confirm(_QUESTION.format(feed=feed.feed), feed.feed, "reset")
            row = resetting.ask(session, feed, asked)
            said = (
                "the next run reads from the source's beginning; until its release the published tables stay "
                "as they are"
            )
    terminal.console().print(f"{feed.feed}: reset {row.id}{' ' if withdraw else ': '}{said}")
