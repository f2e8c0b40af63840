"""The columns in which two contracts of one table are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from changeledger.kernels.equality import Form, form_of
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ContractError


@dataclass(frozen=True)
class Columns:
    """The columns that both have, in the reference's order. `key`: the numbers of those that are the key."""

    reference: Sequence[Column]
    other: Sequence[Column]
    forms: Sequence[Form]
    key: Sequence[int]

    @classmethod
    def of(cls, reference: Contract, other: Contract) -> Columns:
        """Raises ContractError if the feeds do not agree on the table's key."""
        computed = reference.computed | other.computed
        theirs = {c.name.lower(): c for c in other.columns if c.name.lower() not in computed}
        both = [(c, theirs[c.name.lower()]) for c in reference.columns if c.name.lower() in theirs]
        keys = [[c.name.lower() for c in contract.key] for contract in (reference, other)]
        if keys[0] != keys[1]:
            raise ContractError(
                f"the feeds do not agree on the key of {reference.table}: {keys[0]} and {keys[1]}",
                "state the same `key:` for the table in both feeds' YAML",
            )
        at = {c.name.lower(): i for i, (c, _) in enumerate(both)}
        return cls(
            [c for c, _ in both],
            [o for _, o in both],
            [form_of(c, o) for c, o in both],
            [at[name] for name in keys[0]],
        )

    @property
    def names(self) -> list[str]:
        """As the reference writes them."""
        return [c.name for c in self.reference]

    @property
    def of_other(self) -> list[str]:
        """As the other one writes them."""
        return [c.name for c in self.other]

    @property
    def with_texts(self) -> list[int]:
        return [i for i, form in enumerate(self.forms) if form.text is not None]
