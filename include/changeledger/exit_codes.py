"""Exit codes of jobs. Airflow's tasks retry, wait or fail by them."""

from collections.abc import Collection
from signal import SIGKILL, Signals

from changeledger.model.errors import ChangeledgerError, LeaseHeld, LeaseLost

# An unknown error; Python exits with 1 as well.
FAULT = 1
# A ChangeledgerError that is not retryable; argparse exits with 2 as well.
FINAL = 2
# EX_TEMPFAIL of sysexits.h.
RETRY = 75
# Another process works on the feed or database. The task waits for it; this is no failure.
HELD = 76
# Success, and the stages that follow have nothing to do.
NOTHING = 77
# The source has new records, but the job may not start Spark (`--no-spark`).
NEEDS_SPARK = 78

# NO_GO: `changeledger cutover` or `check` found something wrong. NOT_YET: `cutover` knows too little yet.
NO_GO = 1
NOT_YET = RETRY


def of_cutover(verdict: str) -> int:
    """Returns the exit code of a verdict: "go", "no-go" or "not yet"."""
    return {"go": 0, "no-go": NO_GO, "not yet": NOT_YET}[verdict]


def of_checks(failures: Collection[bool]) -> int:
    """Returns the exit code of `check`. `failures`: for each failed check, whether a retry may succeed."""
    if not failures:
        return 0
    return RETRY if all(failures) else NO_GO


def of(error: ChangeledgerError) -> int:
    if isinstance(error, LeaseHeld | LeaseLost):
        return HELD
    return RETRY if error.retryable else FINAL


def in_words(code: int) -> str:
    """Says how a process ended.

    A signal's code is negative, or above 128 if a shell or Spark reports the code of its own child.
    """
    try:
        signal = Signals(-code if code < 0 else code - 128)
    except ValueError:
        return f"ended with code {code}"
    if signal == SIGKILL:
        return "was killed (SIGKILL; mostly because memory ran out, see docs/sizing.md)"
    return f"was ended by {signal.name}"
