"""`changeledger release`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from changeledger.cli.commands import arguments
from changeledger.cli.lake import opened
from changeledger.config.files import named_feed
from changeledger.config.settings import Settings

app = typer.Typer(
    name="release", help="Complete a release that was committed and not finished.", no_args_is_help=True
)


@app.callback()
def _group() -> None:
    """A group, though it has one command."""


@app.command()
def complete(
    feed: arguments.Feed,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Even if somebody else has written a published table: main becomes what was audited, and "
            "what it was stays readable by the tag displaced_<release>.",
        ),
    ] = False,
) -> None:
    """Tag and move the tables that a crash left behind."""
    from changeledger.stages.maintenance.releasing import complete_by_hand  # noqa: PLC0415 - as in `opened`

    named = named_feed(Settings().feeds, feed)
    with opened("release complete") as spark:
        done = complete_by_hand(spark, named, force=force)
    Console().print(
        f"{feed}: completed: {', '.join(map(str, done))}"
        if done
        else f"{feed}: no release waits to be completed"
    )
