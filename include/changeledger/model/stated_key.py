"""A table's contract by the key that a feed states, in place of the one that its columns came with."""

from __future__ import annotations

from collections.abc import Sequence

from changeledger.model.contract import Contract


def keyed(contract: Contract, key: Sequence[str]) -> Contract:
    """The contract as it is where no key is stated, and without one where it lacks a column of it: half a key
    identifies the wrong rows."""
    places = {name.lower(): at for at, name in enumerate(key, 1)}
    if not places:
        return contract
    if not places.keys() <= {name.lower() for name in contract.names}:
        places = {}
    columns = (c.model_copy(update={"key_position": places.get(c.name.lower(), 0)}) for c in contract.columns)
    return contract.model_copy(update={"columns": tuple(columns)})
