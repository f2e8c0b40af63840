"""Decides the byte order of a table's change masks from counted evidence.

`changeledger.mask_order.mask_evidence` says which rules count and how.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

from pydantic import Field

from changeledger.model.base_model import Strict
from changeledger.model.contract import ByteOrder

ORDERS: tuple[ByteOrder, ...] = get_args(ByteOrder)

# What a record can say about the two orders; the fields of `Evidence` explain each.
COUNTS = ("big", "little", "either", "undecided", "neither", "untested")


class Evidence(Strict):
    """Counts of records with a mask, by what they say. Each record is in exactly one count."""

    # They obey the rules in this order only.
    big: int = Field(default=0, ge=0)
    little: int = Field(default=0, ge=0)
    # They obey the rules, and both orders read the same columns from them.
    either: int = Field(default=0, ge=0)
    # They obey the rules in both orders, which read different columns from them.
    undecided: int = Field(default=0, ge=0)
    # They break a rule in both orders.
    neither: int = Field(default=0, ge=0)
    # Both orders read the same columns from them, and no rule applies.
    untested: int = Field(default=0, ge=0)
    # An example record of a count, in words.
    examples: dict[str, str] = Field(default_factory=dict)

    def __add__(self, other: Evidence) -> Evidence:
        counts = {name: getattr(self, name) + getattr(other, name) for name in COUNTS}
        return Evidence(**counts, examples={**other.examples, **self.examples})

    @property
    def decisive(self) -> int:
        """Records that decide between the orders."""
        return self.big + self.little

    @property
    def obeying(self) -> int:
        """Records that obey the rules in some order."""
        return self.decisive + self.either + self.undecided

    def of_only(self, order: ByteOrder) -> int:
        """Records that obey the rules in this order only."""
        return self.big if order == "big" else self.little

    def against(self, order: ByteOrder) -> int:
        """Records that obey the rules in the other order only."""
        return self.decisive - self.of_only(order)

    def in_words(self) -> str:
        """The counts that are not 0, each with its example: `big 3 (delete with mask 0x0001)`."""
        examples = {name: f" ({example})" for name, example in self.examples.items()}
        counts = {name: count for name in COUNTS if (count := getattr(self, name))}
        parts = [f"{name} {count}{examples.get(name, '')}" for name, count in counts.items()]
        return ", ".join(parts) or "no record with a mask"


class MaskDecision(NamedTuple):
    """How to read the masks of one table in a window."""

    # None: they must not be read, and `why` gives the reason.
    order: ByteOrder | None
    # Whether records prove the order. If not, a later window may.
    is_proved: bool
    why: str


# A faulty mask is a flagged change, not a new byte order. One in a hundred decisive records is forgiven:
# faults that obey every rule in exactly the other order are far rarer, while a source that writes both orders
# mixes them. Among few records, one is forgiven if at least ten others outweigh it.
_FORGIVEN_SHARE = 100
_OUTWEIGH = 10
# If at least this many records of a window obey neither order, and fewer obey one, they outweigh all other
# windows: the table has changed.
_MANY = 10


def decide(
    evidence: Evidence, stored: Evidence, setting: ByteOrder | Literal["auto"], published: ByteOrder
) -> MaskDecision:
    """Decides how to read the masks of a window from its `evidence` and that of the other windows, `stored`.

    `published` is the order that published data of the dialect prove, or else that its page states. It is
    taken if the orders read records differently and no record shows which is right.
    """
    total = evidence + stored
    if _obeys_nothing(evidence, stored):
        return _closed("the masks obey the rules in neither byte order", total)
    return _found_out(evidence, total, published) if setting == "auto" else _stated(setting, evidence, total)


def _found_out(evidence: Evidence, total: Evidence, published: ByteOrder) -> MaskDecision:
    possible = [order for order in ORDERS if _is_possible(order, total)]
    if not possible:
        return _closed("the masks contradict both byte orders", total)
    if len(possible) == 1:
        return _proved(possible[0], evidence, total)
    if not evidence.undecided:
        return MaskDecision("big", False, f"both byte orders read the same so far: {total.in_words()}")
    return MaskDecision(published, False, f"not proved, {published} as published: {total.in_words()}")


def _obeys_nothing(evidence: Evidence, stored: Evidence) -> bool:
    """Returns whether most masks are wrong in both orders: their bits are not where the shape says."""
    total = evidence + stored
    changed_now = evidence.neither >= _MANY and evidence.neither > evidence.obeying
    return changed_now or (total.neither > 1 and total.neither > total.obeying)


def _is_possible(order: ByteOrder, total: Evidence) -> bool:
    against = total.against(order)
    forgiven = max(1, total.decisive // _FORGIVEN_SHARE)
    return against <= forgiven and total.of_only(order) >= _OUTWEIGH * against


def _proved(order: ByteOrder, evidence: Evidence, total: Evidence) -> MaskDecision:
    if _has_turned(order, evidence):
        return _closed(f"the masks were {order} before, but this window contradicts that", total)
    return MaskDecision(order, True, f"proved: {total.in_words()}")


def _has_turned(order: ByteOrder, evidence: Evidence) -> bool:
    """Returns whether the window contradicts the order that all windows together prove.

    A long history may outweigh the window.
    """
    return evidence.against(order) > max(1, evidence.decisive // _FORGIVEN_SHARE)


def _stated(order: ByteOrder, evidence: Evidence, total: Evidence) -> MaskDecision:
    """Judges a setting by the window, because a source may have been set up again.

    If the window says too little, all windows judge, unless they contradict a setting with which it agrees.
    """
    agrees = evidence.against(order) == 0 and (evidence.decisive > 0 or not evidence.undecided)
    is_over = agrees and not _is_possible(order, total)
    judge = evidence if is_over or evidence.decisive > 1 else total
    if not _is_possible(order, judge):
        return _closed(f"the feed states {order}, but its records contradict that", judge)
    return MaskDecision(order, judge.of_only(order) > 0, f"as the feed states: {judge.in_words()}")


def _closed(what: str, total: Evidence) -> MaskDecision:
    return MaskDecision(None, False, f"{what}: {total.in_words()}")
