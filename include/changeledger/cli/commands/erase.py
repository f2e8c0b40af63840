"""`changeledger erase`."""

from __future__ import annotations

import argparse
import getpass
from typing import TYPE_CHECKING, Any

from changeledger.cli.lake import opened, say
from changeledger.config.files import named_feed
from changeledger.config.settings import Settings
from changeledger.model.errors import ConfigError

if TYPE_CHECKING:
    pass


def add(commands: Any) -> None:
    erase = commands.add_parser(
        "erase",
        help="erase the rows of one key, with all that the lake has of them",
        description="Erases from current rows, history, ledger, raw records, quarantine, pending and what "
        "was found of them; older releases can no longer be read. Erase in the source first "
        "(docs/maintenance.md, 'Erasing a person').",
    )
    erase.add_argument("feed", help="the feed's name")
    erase.add_argument("table", help="the source table, as the feed names it")
    erase.add_argument("key", nargs="+", metavar="COLUMN=VALUE", help="each column of the key, once")
    erase.add_argument("--by", default="", metavar="NAME", help="who asks; your login's name by default")
    erase.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    erase.set_defaults(run=_erase)


def _erase(arguments: argparse.Namespace) -> None:
    from changeledger.stages.maintenance.erasing import Erasing  # noqa: PLC0415 - as in `opened`

    feed = named_feed(Settings().feeds, arguments.feed)
    parts = [part.partition("=") for part in arguments.key]
    if not all(name and sign for name, sign, _ in parts) or len({n for n, _, _ in parts}) < len(parts):
        raise ConfigError("the key is named as COLUMN=VALUE, each column once", "for example id=42")
    with opened("erase") as spark:
        erasing = Erasing.of(spark, feed, arguments.table, {name: value for name, _, value in parts})
        counts = erasing.counts()
        for table, count in counts.items():
            say(f"{count:>10,}  {table}")
        for key in erasing.linked():
            say(f"the row has also had the key {key}: erase that, too, where it is the same person's")
        if not arguments.yes:
            question = f"erase these rows of {feed.feed}, and all releases but the newest? Type the table: "
            _confirm(question, arguments.table)
        erased = erasing.erase(arguments.by or getpass.getuser())
    print(f"{sum(erased.values()):,} rows of {len(erased)} tables are erased")  # noqa: T201


def _confirm(question: str, answer: str) -> None:
    """Raises ConfigError where nobody has typed the answer."""
    try:
        typed = input(question)
    except EOFError:
        typed = ""
    if typed.strip() != answer:
        raise ConfigError("nothing was erased: it was not confirmed", f"type {answer}, or say --yes")
