"""The exit codes of a job, by which Airflow's task retries, waits or fails."""

from collections.abc import Collection

from changeledger.model.errors import ChangeledgerError, LeaseHeld, LeaseLost

# As Python's, of an error that nobody knows.
FAULT = 1
# A ChangeledgerError that is not retryable; argparse exits with 2 as well.
FINAL = 2
# EX_TEMPFAIL of sysexits.h.
RETRY = 75
# Another process works on the feed, or for the database: wait for it, which is no failure.
HELD = 76
# All is well, and nothing is left for the stages that follow.
NOTHING = 77
# The source has something new, and Spark was not to be started (`--no-spark`).
NEEDS_SPARK = 78

# Of `changeledger cutover` and `check`: something is wrong; of `cutover`: too little is known yet.
NO_GO = 1
NOT_YET = RETRY


def of_cutover(verdict: str) -> int:
    """`verdict`: go, no-go or not yet."""
    return {"go": 0, "no-go": NO_GO, "not yet": NOT_YET}[verdict]


def of_checks(failures: Collection[bool]) -> int:
    """`failures`: of each check that has failed, whether another try may succeed."""
    if not failures:
        return 0
    return RETRY if all(failures) else NO_GO


def of(error: ChangeledgerError) -> int:
    if isinstance(error, LeaseHeld | LeaseLost):
        return HELD
    return RETRY if error.retryable else FINAL
