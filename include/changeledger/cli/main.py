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
    release,
    releases,
    resets,
    status,
    tables,
)
from changeledger.cli.lake import say
from changeledger.config.loopback import reach_directly
from changeledger.console.encoding import escape_unknown
from changeledger.console.garbage import collect_rarely
from changeledger.console.leaving import leave
from changeledger.model.errors import ChangeledgerError
from changeledger.spark import failures

_CODES = """Exit codes:

0: done; compare and verify: and nothing is wrong

1: stopped, the last lines say why and what to do; compare and verify: also if something is wrong; status:
a feed is late; cutover: no-go; check: a check has failed

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
# In the order of `--help`.
app.command("init", epilog=_CODES)(init.init)
app.command("jars", epilog=_CODES)(jars.jars)
app.command("check", epilog=_CODES)(check.check)
app.command("query", epilog=_CODES)(query.query)
app.command("decode", epilog=_CODES)(decode.decode)
app.command("status", epilog=_CODES)(status.status)
app.command("tables", epilog=_CODES)(tables.tables)
app.command("compare", epilog=_CODES)(databases.compare)
app.command("verify", epilog=_CODES)(databases.verify)
app.command("cutover", epilog=_CODES)(cutover.cutover)
app.add_typer(quarantine.app, epilog=_CODES)
app.add_typer(release.app, epilog=_CODES)
app.command("releases", epilog=_CODES)(releases.releases)
app.command("rollback", epilog=_CODES)(releases.rollback)
app.command("reset", epilog=_CODES)(resets.reset)
app.command("erase", epilog=_CODES)(erase.erase)


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
    """Run one command: returns when all is done, else ends the process with one of `_CODES`."""
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
        ours = error if isinstance(error, ChangeledgerError) else failures.known(error)
        if ours is None:
            raise
        say(f"{ours}{shell.note(ours)}")
        sys.exit(1)
    if argv is None:
        leave(0)
