"""`changeledger quarantine`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from changeledger.cli.commands import arguments
from changeledger.cli.decode.pretty import quarantined
from changeledger.cli.lake import opened, require_lake, say
from changeledger.config.feed import Feed
from changeledger.config.files import named_feed
from changeledger.console import terminal
from changeledger.model.wording import counted
from changeledger.pages.escaping import json_line

if TYPE_CHECKING:
    from changeledger.state.quarantine import Chosen

app = typer.Typer(
    name="quarantine", help="Show records that could not be read, or replay them.", no_args_is_help=True
)
_Table = Annotated[str | None, typer.Option(help="Only records of this source table, as named in the feed.")]
_Reason = Annotated[str | None, typer.Option(help="Only records with this reason code.")]
_Window = Annotated[
    str | None, typer.Option("--run", metavar="RUN", help="Only records of this run, as named by `list`.")
]


def _asked(feed: str, table: str | None, reason: str | None, run: str | None) -> tuple[Feed, Chosen]:
    """The feed, and which of its records."""
    from changeledger.cli import quarantine  # noqa: PLC0415 - as in `opened`

    named = named_feed(feed)
    require_lake()
    return named, quarantine.chosen(named, table, reason, run)


@app.command("list")
def list_counts(
    feed: arguments.Feed,
    table: _Table = None,
    reason: _Reason = None,
    run: _Window = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Count the records by table and reason."""
    from changeledger.cli import quarantine  # noqa: PLC0415 - as in `opened`

    rows = quarantine.summary(*_asked(feed, table, reason, run))
    terminal.print_rows(quarantine.SUMMARY, rows, as_json=as_json)


@app.command()
def show(
    feed: arguments.Feed,
    table: _Table = None,
    reason: _Reason = None,
    run: _Window = None,
    as_json: arguments.AsJson = False,
) -> None:
    """Show the records as they came, with reason and detail."""
    from changeledger.cli import quarantine  # noqa: PLC0415 - as in `opened`

    for record in quarantine.records(*_asked(feed, table, reason, run)):
        for name in ("raw_key", "raw_value"):
            record[name] = terminal.text(record[name])
        if as_json:
            print(json_line(record, default=terminal.shown))  # noqa: T201
        else:
            Console(highlight=False).print(quarantined(record))


@app.command()
def replay(feed: arguments.Feed, table: _Table = None, reason: _Reason = None, run: _Window = None) -> None:
    """Let the feed's next run read the records again, after a fix."""
    from changeledger.cli import quarantine  # noqa: PLC0415 - as in `opened`

    named, chosen = _asked(feed, table, reason, run)
    say(f"adding quarantined records of {feed} to the list that its next run reads again")
    with opened("quarantine") as spark:
        count = quarantine.replay(spark, named, chosen, say)
    print(  # noqa: T201
        f"the next run of {feed} reads {counted(count, 'record')} again: trigger it now, or wait for it"
        if count
        else "nothing was added to the list: the records are already on it, or `changeledger quarantine list "
        f"{feed}` has none of this table, reason and run"
    )
