"""`changeledger erase`."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from changeledger.cli.commands import arguments
from changeledger.cli.lake import confirm, opened, say
from changeledger.config.files import named_feed
from changeledger.model.errors import ConfigError
from changeledger.model.wording import counted


def erase(
    feed_name: arguments.Feed,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The source table, as named in the feed.")],
    cells: Annotated[
        list[str], typer.Argument(metavar="COLUMN=VALUE...", help="Each key column once, as COLUMN=VALUE.")
    ],
    by: arguments.By = "",
    yes: arguments.Yes = False,
) -> None:
    """Erase the rows of one key from everything that the lake has of them.

    Erases from current rows, history, ledger, raw records, quarantine, pending and what was found of them;
    older releases can no longer be read. Erase in the source first (docs/maintenance.md, 'Erasing a person').
    """
    from changeledger.stages.maintenance.erasing import Erasing  # noqa: PLC0415 - as in `opened`

    feed = named_feed(feed_name)
    parts = [part.partition("=") for part in cells]
    if not all(name and sign for name, sign, _ in parts) or len({n for n, _, _ in parts}) < len(parts):
        raise ConfigError("the key must be given as COLUMN=VALUE, each column once", "for example id=42")
    with opened("erase") as spark:
        erasing = Erasing.of(spark, feed, table, {name: value for name, _, value in parts})
        counts = erasing.counts()
        for name, count in counts.items():
            say(f"{count:>10,}  {name}")
        if not counts:
            say("no row has this key: check how the lake writes it. Older releases are removed anyway")
        for key in erasing.linked():
            say(f"the row has also had the key {key}: erase that key as well, if it is the same person's")
        if not yes:
            question = f"erase these rows of {feed.feed}, and all releases but the newest? Type the table: "
            confirm(question, table, "erased")
        erased = erasing.erase(by or getpass.getuser())
    print(f"erased: {counted(sum(erased.values()), 'row')} of {counted(len(erased), 'table')}")  # noqa: T201
