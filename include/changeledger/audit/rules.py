"""The rules that a run's tables must satisfy before they are published: their sentences and severities.

The functions on Arrow batches beside this module apply them, under the same names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from changeledger.model import change
from changeledger.model.contract import Contract

Severity = Literal["critical", "error", "warning"]


# How many rows that break a rule, or records that a sum names, are shown.
SAMPLES: Final = 20
# The member of a sample with both images of its change, only for the page.
IMAGES: Final = "images"


class Sum(NamedTuple):
    """What a rule counts other than rows. `of`: a source or table; `wrong`: None if it cannot be counted."""

    of: str
    wrong: int | None
    why: str


@dataclass(frozen=True)
class Rule:
    """`says` is the rule as one sentence for people; `column` is what it is about.

    A failed `warning` is reported and does not stop the release. An `error` stops it unless a person
    tolerates it. A `critical` rule always stops it: records or changes would be lost.

    `sums`: what the rule counts; None for a rule on rows (`narrow_rows.RULES`). `is_users`: it is an
    expectation that a user added.
    """

    name: str
    column: str
    says: str
    severity: Severity = "error"
    sums: tuple[Sum, ...] | None = None
    is_users: bool = False


class _Of(NamedTuple):
    column: str
    says: str
    severity: Severity = "error"


LEDGER_KEEPS: Final = "ledger_keeps_everything"
ONE_LOG: Final = "one_log"
LOADS_FIRST: Final = "loads_come_first"
LSNS_STAY: Final = "lsns_stay"
# Rules on how changes arrive, which apply only to sources whose positions show it.
OF_ARRIVAL: Final = (ONE_LOG, LOADS_FIRST, LSNS_STAY)
# In the order of the page. An empty column stands for the table's key.
TABLE_RULES: Final[Mapping[str, _Of]] = {
    "mask_agrees_with_images": _Of(
        "changed",
        "The update mask names exactly the columns that differ between the images where both are known.",
    ),
    "operation_has_its_images": _Of(
        "operation",
        "An insert or snapshot has only an after image, a delete only a before image, and an update has both "
        "unless its before image is known to be missing. Each image has the key that the change says.",
    ),
    "key_not_null": _Of(
        "key",
        "Every change has a whole key, an id, a place in the order, an operation, a commit time and the "
        "record that it came from.",
    ),
    "lsn_width": _Of("commit_lsn", "A log sequence number is 10 bytes wide."),
    ONE_LOG: _Of(
        "commit_lsn",
        "No change has an earlier place in the log than changes that were read before it, but a later commit "
        "time.",
    ),
    LOADS_FIRST: _Of("operation", "No row of a full load comes after changes of its table.", "warning"),
    LSNS_STAY: _Of(
        "commit_lsn",
        "No change without a log sequence number comes after changes of its table that have one.",
    ),
    "change_id_unique": _Of(
        "change_id",
        "No two changes have the same id, within the run and against everything published.",
        "critical",
    ),
    "order_strict": _Of("sort_key", "No two changes of one key have the same position in the order."),
    LEDGER_KEEPS: _Of(
        "change_id",
        "A run never removes rows from the ledger, except when it joins the two halves of a key update.",
        "critical",
    ),
    "duplicates_leave_one": _Of(
        "source_position",
        "Of records that repeat each other, exactly one is a change, in this run or published before.",
        "critical",
    ),
    "interval_forward": _Of(
        "_valid_to", "No interval of the history ends before it begins, in time or in the order."
    ),
    "one_open_interval": _Of(
        "_valid_to",
        "A key has at most one open interval in the history, and exactly one if the run has changes of the "
        "key.",
    ),
    "changes_are_applied": _Of(
        "_change_id",
        "Each change of the run has its intervals in the history, with its operation, place in the order, "
        "time and known values. Each interval ends where the next one begins.",
    ),
    "current_equals_open_history": _Of(
        "_is_deleted",
        "A key of this run has a current row if and only if its open interval is not deleted, and both come "
        "from the same change and have the same values.",
    ),
    "current_key_unique": _Of("", "A key has at most one current row."),
    "current_key_not_null": _Of("", "No current row has a key column that is NULL."),
    "image_chain": _Of(
        "before",
        "A change's before image equals what the change before it left, where both are known.",
    ),
}


def table_rules(
    contract: Contract, keeps: Sum | None, image_chain: Severity, of_arrival: Collection[str] = OF_ARRIVAL
) -> list[Rule]:
    """Returns the rules of one table. `of_arrival`: which of `OF_ARRIVAL` are checked.

    `keeps`: the sum of `ledger_keeps_everything`, None if nothing was published before.
    """
    left_out = {name: name not in of_arrival for name in OF_ARRIVAL} | {LEDGER_KEEPS: keeps is None}
    key = ", ".join(change.quoted(c.name) for c in contract.key)
    severities = {"image_chain": image_chain}
    sums = {LEDGER_KEEPS: None if keeps is None else (keeps,)}
    return [
        Rule(name, of.column or key, of.says, severities.get(name, of.severity), sums.get(name))
        for name, of in TABLE_RULES.items()
        if not left_out.get(name)
    ]


def ledger_keeps(ledger: str, kept: int | None, published: int | None) -> Sum:
    """Returns the sum of `ledger_keeps_everything`.

    `kept`: the branch's rows of other runs. `published`: the rows of main, except joined halves.
    """
    if kept is None or published is None:
        return Sum(ledger, None, "the snapshots do not say how many rows they have")
    return Sum(ledger, abs(kept - published), f"{published:,} rows were published, {kept:,} of them are kept")
