"""`changeledger`: ask the lake of this installation, or see how a record is read."""

from __future__ import annotations

from changeledger.cli.commands import databases, decode, erase, quarantine, query, release, status
from changeledger.cli.lake import fail
from changeledger.console.arguments import CommandParser
from changeledger.model.errors import ChangeledgerError
from changeledger.storage import failures

# In the order of `--help`.
_COMMANDS = (query, decode, status, databases, quarantine, release, erase)


def main(argv: list[str] | None = None) -> None:
    """Run one command; `CommandParser` says with which code it ends."""
    parser = CommandParser(prog="changeledger", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add(commands)
    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
    except Exception as error:
        ours = error if isinstance(error, ChangeledgerError) else failures.known(error)
        if ours is None:
            raise
        fail(str(ours))
