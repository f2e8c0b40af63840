"""Applies the key that a feed states to a table's contract."""

from __future__ import annotations

from collections.abc import Sequence

from changeledger.model.contract import Contract


def keyed(contract: Contract, key: Sequence[str]) -> Contract:
    """Returns the contract with the stated key, or unchanged if no key is stated.

    If the contract lacks a column of the key, it gets no key: half a key identifies the wrong rows.
    """
    places = {name.lower(): at for at, name in enumerate(key, 1)}
    if not places:
        return contract
    if not places.keys() <= {name.lower() for name in contract.names}:
        places = {}
    columns = (c.model_copy(update={"key_position": places.get(c.name.lower(), 0)}) for c in contract.columns)
    return contract.model_copy(update={"columns": tuple(columns)})
