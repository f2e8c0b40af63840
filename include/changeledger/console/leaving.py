"""The end of a process."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from typing import NoReturn


def leave(code: int) -> NoReturn:
    """End this process with the code, when what is registered for its exit has run and all is printed.

    Python would first take apart what was imported, module by module: up to a second of a job.
    """
    atexit._run_exitfuncs()
    # Whoever read it may have gone.
    with suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
