"""Results of checks, and of decoding the records that a check looks at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from changeledger.config.feed import Feed
from changeledger.config.tables import TableConfig
from changeledger.model import change
from changeledger.model.column_names import shown
from changeledger.model.contract import Contract
from changeledger.model.wording import counted, listed
from changeledger.spark import failures
from changeledger.state.reasons import REASONS

OK: Final = "ok"
WARNING: Final = "warning"
FAILED: Final = "failed"

_MOST_COLUMNS = 12
_SHOWN = 3
_WAITS = (
    "widen `topics:` if they wait for records on another topic; a run may already have those from an earlier "
    "window"
)
_CORRECT = "see docs/feeds.md, 'Messages of another form'; `changeledger decode` shows how a record is read"

Result = TypeVar("Result")


class Check(NamedTuple):
    """The result of one check.

    `check`: what was checked. `retryable`: whether another try may succeed without a change.
    """

    check: str
    result: str
    text: str
    remedy: str = ""
    retryable: bool = False
    # Decoded records to show, as `decode` prints them.
    records: Sequence[dict[str, Any]] = ()


Checks = Generator[Check, None, Result]


def caught(check: str, steps: Checks[Result]) -> Checks[Result | None]:
    """Runs the steps and returns their result. An error becomes a failed check, and the result is None.

    Raises errors that are neither ours nor known errors of another system.
    """
    try:
        return (yield from steps)
    except Exception as error:
        ours = failures.known(error)
        if ours is None:
            raise
        yield Check(check, FAILED, ours.message, ours.remedy, ours.retryable)
        return None


def described(config: TableConfig, contracts: Mapping[str, Contract]) -> Iterator[Check]:
    """Yields a check for each contract of a table, and one for each unknown column of `columns:`.

    `contracts`: by the change table from which each was read, the newest last.
    """
    for where, contract in contracts.items():
        yield _described(contract, where)
    yield from unknown_columns(config, [*contracts.values()])


def _described(contract: Contract, where: str) -> Check:
    """Returns a check with the table's key and types; failed without a key."""
    check = f"table {contract.table}"
    if not contract.key:
        return Check(
            check, FAILED, f"{where}its key is not known",
            f"state `key:` of {contract.table} in the feed's YAML",
        )  # fmt: skip
    key = ", ".join(f"{column.name} {column.type}" for column in contract.key)
    others = [f"{shown([c.name])} {c.type}" for c in contract.columns if not c.key_position]
    return Check(check, OK, f"{where}key {key}; columns {listed(others, _MOST_COLUMNS) or 'none beside'}")


def unknown_columns(config: TableConfig, contracts: Sequence[Contract]) -> Iterator[Check]:
    """Yields warnings for columns in `columns:` that no contract of the table has.

    The last contract is the newest.
    """
    stated = [c.name for c in config.columns]
    of_each = [contract.unknown(stated) for contract in contracts]
    for name, said in of_each[-1].items():
        if all(name in unknown for unknown in of_each):
            yield Check(
                f"table {config.table}", WARNING,
                f"`columns:` names a column that the table does not have: {said}",
                "correct the name in the feed's YAML, unless the source has dropped the column or will add "
                "it",
            )  # fmt: skip


def judged(feed: Feed, results: Sequence[dict[str, Any]]) -> Iterator[Check]:
    """Yields checks of what became of the decoded records. `results`: as `decode` returns them."""
    dispositions = Counter(result["disposition"] for result in results)
    changes = [result for result in results if result["disposition"] == change.CHANGE]
    said = ", ".join(f"{number} {disposition}" for disposition, number in dispositions.most_common())
    text = f"{counted(len(results), 'record')} read: {said or 'none'}"
    if changes:
        yield Check("records", OK, text, records=changes[-_SHOWN:])
    else:
        yield Check("records", WARNING, text, "change a row in the source, and check again")
    share = dispositions[change.QUARANTINED] / max(len(results), 1)
    stops = share > feed.quarantine_limit
    for reason, number, detail in _reasons(results, change.QUARANTINED):
        text = f"{number} of {len(results)} cannot be read, {reason}: {detail}"
        yield Check("records", FAILED if stops else WARNING, text, REASONS.get(reason, _CORRECT))
    for reason, number, detail in _reasons(results, change.PENDING):
        yield Check("records", WARNING, f"{number} of {len(results)} wait, {reason}: {detail}", _WAITS)


def _reasons(results: Sequence[dict[str, Any]], disposition: str) -> Iterator[tuple[str, int, str]]:
    """Yields each reason with the number of records that have it, and the detail of the first."""
    chosen = [result for result in results if result["disposition"] == disposition]
    details = {result.get("reason", "unknown"): result.get("detail", "") for result in reversed(chosen)}
    for reason, number in Counter(result.get("reason", "unknown") for result in chosen).items():
        yield reason, number, details[reason]
