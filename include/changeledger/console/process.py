"""Sets up and ends a process of this program."""

from __future__ import annotations

import atexit
import codecs
import gc
import io
import json
import os
import sys
from contextlib import suppress
from typing import NoReturn

# How many new objects start a garbage collection of the youngest. Python's default of 700 makes it go through
# everything imported so far again and again during further imports, which costs a fifth of their time.
_NEW_OBJECTS = 50_000
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_ESCAPE = "changeledger.escape"


def collect_rarely() -> None:
    """Makes garbage collections rare, for a short-lived process: a job or a command."""
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])


def reach_directly() -> None:
    """Adds this machine to `no_proxy`, for this process and those that it starts.

    Otherwise the clients of Spark Connect, of a schema registry and of Airflow ask the proxy of `http_proxy`
    for this machine, too, some of them for minutes.
    """
    present = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    names = [name.strip() for name in present.split(",") if name.strip()]
    # A star means all hosts, and only if it stands alone.
    if "*" not in names:
        names += [name for name in _THIS_MACHINE if name not in names]
    # Each client reads one of the two variables.
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(names)


def escape_unknown() -> None:
    """Prints characters that the locale's encoding (such as ISO-8859-1) lacks as JSON escapes (`\\u2192`).

    JSON readers understand these.
    """
    codecs.register_error(_ESCAPE, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPE)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def leave(code: int) -> NoReturn:
    """Ends this process with the code, after running its exit functions and printing everything.

    Python itself would first tear down the imported modules one by one, which takes a job up to a second.
    """
    atexit._run_exitfuncs()
    # The reader of the output may have gone.
    with suppress(BrokenPipeError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
