"""Query this installation's lake, check its feeds, or see how a record is read."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from changeledger.cli import shell
from changeledger.cli.commands import (
    check,
    cutover,
    databases,
    decode,
    erase,
    init,
    jars,
    quarantine,
    query,
    releases,
    status,
)
from changeledger.cli.lake import say
from changeledger.console.process import collect_rarely, escape_unknown, leave, reach_directly
from changeledger.spark import failures

_CODES = """Exit codes:

0: done; compare and verify: nothing is wrong

1: stopped, and the last lines say why and what to do; compare and verify: something is wrong; status: a
feed is late; cutover: no-go; check: a check has failed

2: the arguments are wrong

75: cutover: not yet; check: a source does not answer
"""

app = typer.Typer(
    name="changeledger",
    help=__doc__,
    epilog=_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# In the order of `--help`, which lists groups last.
for command in (
    init.init, jars.jars, check.check, query.query, decode.decode, status.status, status.tables,
    databases.compare, databases.verify, cutover.cutover, releases.releases, releases.rollback,
    releases.reset, erase.erase,
):  # fmt: skip
    app.command(epilog=_CODES)(command)
for group in (quarantine.app, releases.app):
    app.add_typer(group, epilog=_CODES)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"changeledger {version('changeledger')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main(argv: list[str] | None = None) -> None:
    """Runs one command. Returns if it succeeds, else ends the process with one of `_CODES`."""
    # Commands import most of what they need when they run.
    collect_rarely()
    reach_directly()
    escape_unknown()
    try:
        app(argv)
    except SystemExit as ended:
        if ended.code:
            raise
    except Exception as error:
        ours = failures.known(error)
        if ours is None:
            raise
        say(f"{ours}{shell.note(ours)}")
        sys.exit(1)
    if argv is None:
        leave(0)
