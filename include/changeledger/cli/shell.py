"""The environment that `make up` leaves for a shell. It is outdated once `make up` has ended."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from changeledger.model.errors import ChangeledgerError, SourceUnavailable

# The environment file sets this variable to its own path.
FILE = "CHANGELEDGER_UP_ENV"


def note(error: ChangeledgerError) -> str:
    """Returns a note to follow the text of an error that an outdated environment may have caused."""
    file = os.environ.get(FILE)
    if not file:
        return ""
    command = f". {shlex.quote(file)}"
    try:
        current = Path(file).read_text("utf-8")
    except OSError:
        return f"\n  The `make up` of this shell's environment has ended: run it again, then `{command}`"
    if f"SPARK_REMOTE={shlex.quote(os.environ.get('SPARK_REMOTE', ''))}\n" not in current:
        return f"\n  `make up` was started again after this shell got its environment: `{command}`"
    if isinstance(error, SourceUnavailable):
        return (
            f"\n  This shell uses a `make up`: check whether it runs. If you start it again, then `{command}`"
        )
    return ""
