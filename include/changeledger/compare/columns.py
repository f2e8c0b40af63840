"""The columns in which two contracts of one table are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from changeledger.compare.cells import Numbers, hashed
from changeledger.kernels.equality import Form, form_of
from changeledger.kernels.publishing import hash_alike
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ContractError


@dataclass(frozen=True)
class Columns:
    """The columns that both contracts have, in the reference's order. `key`: indices of the key's columns.

    Columns are matched by their names in the source, whatever they are published as. `left_out`: columns that
    are published in forms that cannot be compared, each with the reason.
    """

    reference: Sequence[Column]
    other: Sequence[Column]
    forms: Sequence[Form]
    key: Sequence[int]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, reference: Contract, other: Contract) -> Columns:
        """Compares published contracts. Raises ContractError if they do not agree on the table's key."""
        both = _of_both(reference, other)
        keys = [[_source(c) for c in contract.key] for contract in (reference, other)]
        if keys[0] != keys[1]:
            raise ContractError(
                f"the feeds do not agree on the key of {reference.table}: {keys[0]} and {keys[1]}",
                "state the same `key:` for the table in both feeds' YAML",
            )
        left_out = _left_out(both)
        if of_key := [name for name in keys[0] if name in left_out]:
            raise ContractError(
                f"the key of {reference.table} cannot be compared: {of_key[0]}: {left_out[of_key[0]]}",
                "publish the key in both feeds alike (`publish:` in their YAML), or compare other feeds",
            )
        both = [(c, o) for c, o in both if _source(c) not in left_out]
        at = {_source(c): i for i, (c, _) in enumerate(both)}
        return cls(
            [c for c, _ in both],
            [o for _, o in both],
            [form_of(c, o) for c, o in both],
            [at[name] for name in keys[0]],
            left_out,
        )

    @property
    def names(self) -> list[str]:
        """The columns' names in the reference."""
        return [c.name for c in self.reference]

    @property
    def of_other(self) -> list[str]:
        """The columns' names in the other contract."""
        return [c.name for c in self.other]

    def key_hashes(self, own: Sequence[Column], cells: Mapping[str, pa.Array], rows: int) -> list[Numbers]:
        """Returns two hashes of each row's key. `own`: the columns as the rows have them."""
        forms = [self.forms[at].value for at in self.key]
        keys = [cells[own[at].name] for at in self.key]
        comparable = [cell if form is None else form(cell) for cell, form in zip(keys, forms, strict=True)]
        return [hashed(comparable, rows, seed) for seed in (1, 2)]

    @property
    def with_texts(self) -> list[int]:
        return [i for i, form in enumerate(self.forms) if form.text is not None]


def not_compared(reference: Contract, other: Contract, feeds: tuple[str, str]) -> dict[str, str]:
    """Returns the columns of either contract that are not compared, each with the reason.

    Computed columns are left out. The contracts are as in the source; `feeds` are their feeds.
    """
    both = (reference, other)
    sides = zip(both, both[::-1], feeds, strict=True)
    alone = {name: f"only {feed} has it" for own, theirs, feed in sides for name in only_in(own, theirs)}
    dropped = {name: "left out of what is published" for contract in both for name in contract.dropped}
    return alone | dropped | _left_out(_of_both(reference.published, other.published))


def only_in(contract: Contract, other: Contract) -> list[str]:
    """Returns the columns, except computed ones, that `other` lacks. Both contracts are as in the source."""
    others = {_source(c) for c in other.columns} | _computed(contract)
    return [c.name for c in contract.columns if _source(c) not in others]


def _of_both(reference: Contract, other: Contract) -> list[tuple[Column, Column]]:
    """Returns the columns, except computed ones, that both published contracts have."""
    computed = _computed(reference) | _computed(other)
    theirs = {_source(c): c for c in other.columns if _source(c) not in computed}
    return [(c, theirs[_source(c)]) for c in reference.columns if _source(c) in theirs]


def _left_out(both: Sequence[tuple[Column, Column]]) -> dict[str, str]:
    return {_source(c): why for c, other in both if (why := why_not_compared(c, other))}


def _source(column: Column) -> str:
    """Returns the column's name in the source, in lower case."""
    return (column.origin or column).name.lower()


def _computed(contract: Contract) -> set[str]:
    return {_source(c) for c in contract.columns if c.name.lower() in contract.computed}


def why_not_compared(column: Column, other: Column) -> str:
    """Returns why equal values of the source may differ when published, or an empty text if they do not."""
    origins = [c.origin or c for c in (column, other)]
    rules = [c.publish for c in origins if c.publish is not None]
    types = f"{origins[0].type} and {origins[1].type}"
    if any(rule.cast == "string" for rule in rules) and origins[0].spark_type != origins[1].spark_type:
        return f"texts cast from {types}"
    hashed = [rule for rule in rules if rule.hash]
    if not hashed:
        return ""
    if len(hashed) == 1:
        return "hashed in one of the two"
    if origins[0].hash_key != origins[1].hash_key:
        return "hashed with two keys"
    return "" if hash_alike(*origins) else f"hashed from {types}"
