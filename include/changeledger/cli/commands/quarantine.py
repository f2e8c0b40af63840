"""`changeledger quarantine`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rich.console import Console

from changeledger.cli.decode.pretty import quarantined
from changeledger.cli.lake import opened, require_lake, say
from changeledger.config.feed import Feed
from changeledger.config.files import named_feed
from changeledger.config.settings import Settings
from changeledger.console import terminal
from changeledger.pages.escaping import json_line

if TYPE_CHECKING:
    from changeledger.cli.quarantine import Chosen


def add(commands: Any) -> None:
    quarantine = commands.add_parser("quarantine", help="see records that could not be read, or replay them")
    actions = quarantine.add_subparsers(required=True, metavar="ACTION")
    for name, run, summary in (
        ("list", _quarantine_list, "how many records, by table and reason"),
        ("show", _quarantine_show, "the records as they came, with reason and detail"),
        ("replay", _quarantine_replay, "let the feed's next run read them again, after a fix"),
    ):
        action = actions.add_parser(name, help=summary)
        action.add_argument("feed", help="the feed's name")
        action.add_argument("--table", help="of this source table only, as the feed names it")
        action.add_argument("--reason", help="with this reason code only")
        action.add_argument(
            "--run", dest="run_id", metavar="RUN", help="of this run only, as `list` names it"
        )
        if name != "replay":
            action.add_argument("--json", action="store_true", help="one JSON object a row")
        action.set_defaults(run=run)


def _chosen(arguments: argparse.Namespace) -> tuple[Feed, Chosen]:
    from changeledger.cli.quarantine import Chosen  # noqa: PLC0415 - as in `opened`

    return named_feed(Settings().feeds, arguments.feed), Chosen(
        arguments.table, arguments.reason, arguments.run_id
    )


def _quarantine_list(arguments: argparse.Namespace) -> None:
    from changeledger.cli import quarantine  # noqa: PLC0415 - as in `opened`

    feed, chosen = _chosen(arguments)
    require_lake(Settings())
    found = quarantine.summary(feed, chosen)
    if arguments.json:
        terminal.print_json(found)
    else:
        terminal.print_table(quarantine.SUMMARY, (row.values() for row in found))


def _quarantine_show(arguments: argparse.Namespace) -> None:
    from changeledger.cli import quarantine  # noqa: PLC0415 - as in `opened`

    feed, chosen = _chosen(arguments)
    require_lake(Settings())
    for record in quarantine.records(feed, chosen):
        for name in ("raw_key", "raw_value"):
            record[name] = terminal.text(record[name])
        if arguments.json:
            print(json_line(record, default=terminal.shown))  # noqa: T201
        else:
            Console(highlight=False).print(quarantined(record))


def _quarantine_replay(arguments: argparse.Namespace) -> None:
    from changeledger.cli import quarantine  # noqa: PLC0415 - as in `opened`

    feed, chosen = _chosen(arguments)
    say(f"puts quarantined records of {feed.feed} on the list that its next run reads again")
    with opened("quarantine") as spark:
        count = quarantine.replay(spark, feed, chosen, say)
    print(f"{count} records are read again by the next run of {feed.feed}: trigger it now, or wait for it")  # noqa: T201
