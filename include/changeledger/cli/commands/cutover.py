"""`changeledger cutover`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from changeledger import exit_codes
from changeledger.cli.commands import arguments
from changeledger.cli.lake import control_store, database_of, say
from changeledger.console import terminal
from changeledger.model.errors import ConfigError

_Feed = Annotated[str, typer.Option("--from", metavar="FEED", help="The feed in use.")]
_Successor = Annotated[str, typer.Option("--to", metavar="FEED", help="The feed that is to replace it.")]

_Days = Annotated[float, typer.Option(metavar="N", help="How many days to look back.")]
_Events = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="With fewer compared events it is `not yet`; 1,000 by default."),
]
_AsJson = Annotated[bool, typer.Option("--json", help="Print the page's contents as one JSON object.")]
_Page = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the page, to print and sign, as one HTML file.")
]


def cutover(  # noqa: PLR0913, PLR0917 - the command's options
    name: arguments.Database,
    old: _Feed,
    new: _Successor,
    days: _Days = 7,
    events: _Events = None,
    as_json: _AsJson = False,
    page: _Page = None,
) -> None:
    """May we switch from one feed of a database to another: go, no-go or not yet, and why.

    Ends with 0 for go, 1 for no-go, 75 for not yet. The rules: docs/cutover.md.
    """
    # Imported here, as in `tables`, because SQLAlchemy and pyarrow are slow to import.
    from changeledger.cli.cutover_tables import print_cutover  # noqa: PLC0415
    from changeledger.reports import cutover as report  # noqa: PLC0415
    from changeledger.state import cutover as facts  # noqa: PLC0415
    from changeledger.state.cutover_json import as_json as json_of  # noqa: PLC0415
    from changeledger.state.verdict import LEAST_EVENTS, judge  # noqa: PLC0415

    database, feeds = database_of(name)
    pair, period = facts.pair_of(database, feeds, old, new), facts.last_days(days)
    cutover_facts = facts.gather(control_store(), database, feeds, pair, period)
    verdict = judge(cutover_facts, events or LEAST_EVENTS)
    if page is not None:
        _write(page, report.page(cutover_facts, verdict))
    if as_json:
        terminal.print_json([json_of(cutover_facts, verdict)])
    else:
        print_cutover(cutover_facts, verdict)
    raise typer.Exit(exit_codes.of_cutover(verdict.verdict))


def _write(page: Path, text: str) -> None:
    try:
        page.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError(
            f"the page {page} cannot be written: {error.strerror}", "name a file that you may write to"
        ) from error
    say(f"the page: {page}")
