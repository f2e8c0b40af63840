"""How a process of ours begins and ends."""

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

# Objects made before Python looks at the youngest. With its own 700 it looks at all that has been imported
# again and again while more is imported: a fifth of an import's time.
_NEW_OBJECTS = 50_000
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")
_ESCAPE = "changeledger.escape"


def collect_rarely() -> None:
    """Look for garbage rarely, in a process that ends soon: a job or a command."""
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])


def reach_directly() -> None:
    """Add this machine to what `no_proxy` excepts, for this process and those that it starts.

    Otherwise the clients of Spark Connect, of a schema registry and of Airflow ask the proxy of `http_proxy`
    for it too, some of them for minutes.
    """
    present = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    names = [name.strip() for name in present.split(",") if name.strip()]
    # A star stands for all, and only alone.
    if "*" not in names:
        names += [name for name in _THIS_MACHINE if name not in names]
    # Each client reads one of them.
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(names)


def escape_unknown() -> None:
    """Print characters that the locale's encoding lacks, such as ISO-8859-1, as JSON escapes them
    (`\\u2192`), which JSON readers read."""
    codecs.register_error(_ESCAPE, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ESCAPE)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


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
