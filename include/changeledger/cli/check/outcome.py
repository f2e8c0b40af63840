"""What a check has shown."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from changeledger.model.column_names import shown
from changeledger.model.contract import Contract
from changeledger.model.errors import ChangeledgerError
from changeledger.model.wording import listed
from changeledger.spark import failures

OK: Final = "ok"
WARNING: Final = "warning"
FAILED: Final = "failed"

_MOST_COLUMNS = 12

Result = TypeVar("Result")


class Check(NamedTuple):
    """`check`: what was looked at. `retryable`: may another try succeed, without a change?"""

    check: str
    result: str
    text: str
    remedy: str = ""
    retryable: bool = False
    # Decoded records that are shown, as `decode` prints them.
    records: Sequence[dict[str, Any]] = ()


def failed(check: str, error: ChangeledgerError) -> Check:
    return Check(check, FAILED, error.message, error.remedy, error.retryable)


Checks = Generator[Check, None, Result]


def caught(check: str, steps: Checks[Result]) -> Checks[Result | None]:
    """The steps and their result; an error that ends them is a failed check, and there is no result.

    Raises what is neither an error of ours nor a known one of another system.
    """
    try:
        return (yield from steps)
    except Exception as error:
        ours = error if isinstance(error, ChangeledgerError) else failures.known(error)
        if ours is None:
            raise
        yield failed(check, ours)
        return None


def described(contract: Contract, where: str = "") -> Check:
    """Key and types of a table. `where`: the change table that they were read from."""
    check = f"table {contract.table}"
    if not contract.key:
        return Check(
            check, FAILED, f"{where}nothing names its key",
            f"state `key:` of {contract.table} in the feed's YAML",
        )  # fmt: skip
    key = ", ".join(f"{column.name} {column.type}" for column in contract.key)
    others = [f"{shown([c.name])} {c.type}" for c in contract.columns if not c.key_position]
    return Check(check, OK, f"{where}key {key}; columns {listed(others, _MOST_COLUMNS) or 'none beside'}")
