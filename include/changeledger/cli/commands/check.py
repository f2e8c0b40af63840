"""`changeledger check`."""

from __future__ import annotations

import logging
import sys

from rich.console import Console
from rich.text import Text

from changeledger import exit_codes
from changeledger.cli.commands import arguments
from changeledger.cli.decode.pretty import drawn
from changeledger.console import terminal
from changeledger.console.arrow_alone import load_arrow
from changeledger.pages.escaping import json_line

_STYLES = {"ok": "green", "warning": "yellow", "failed": "bold red"}


def check(feed: arguments.Feed, as_json: arguments.AsJson = False) -> None:
    """Check a feed before it runs: its file, connections and grants, retention, keys and types, and records.

    Asks the source and writes nothing. Ends with 1 if a check has failed, with 75 if only a source does not
    answer.
    """
    load_arrow()
    # Imported here because they take seconds: `--help` answers at once.
    from changeledger.cli.check.outcome import FAILED, Check  # noqa: PLC0415
    from changeledger.cli.check.sequence import checks  # noqa: PLC0415

    logging.disable()
    out = terminal.console()

    def show(done: Check) -> None:
        if as_json:
            print(json_line(done._asdict()), flush=True)  # noqa: T201
            return
        words = Text.assemble(
            (f"{done.result:<8}", _STYLES[done.result]), terminal.plain(f"{done.check}: {done.text}")
        )
        out.print(words, soft_wrap=True)
        if done.remedy:
            out.print(terminal.plain(f"        Remedy: {done.remedy}"), soft_wrap=True)
        for record in done.records:
            # As wide as a terminal, even if the output goes to a file.
            Console(highlight=False).print(drawn(record))

    failures = []
    for done in checks(feed):
        show(done)
        if done.result == FAILED:
            failures.append(done.retryable)
    if code := exit_codes.of_checks(failures):
        sys.exit(code)
