"""Combines a table's contract so far with a writer's schema and with what the feed states."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from changeledger.config.feed import Feed
from changeledger.model.column_names import shown
from changeledger.model.contract import Contract
from changeledger.model.errors import ContractError
from changeledger.model.stated_key import keyed


def stated_computed(feed: Feed, table: str) -> frozenset[str]:
    """Returns the columns, in lower case, that the feed states as computed."""
    config = feed.table(table)
    return frozenset(c.name.lower() for c in config.columns if c.computed) if config else frozenset()


def agreed(table: str, known: Contract | None, writer_schema: Contract | None) -> Contract:
    """Returns the table's contract evolved to the writer's schema. Raises ContractError if both are None."""
    if writer_schema is None and known is None:
        raise ContractError(
            f"the messages of {table} do not name its columns: they have no schema block that can be read",
            f"state `columns:` and `key:` of {table} in the feed's YAML, let the connector send them, "
            "or run another feed of the same `database:` first, whose columns are then used",
        )
    if known is not None and writer_schema is not None:
        return known.evolved_to(writer_schema)
    either = known or writer_schema
    assert either is not None, "one of the two is known"
    return either


def of_silent_records(
    feed: Feed, table: str, known: Contract | None, borrowed: Callable[[str], Contract | None]
) -> Contract | None:
    """Returns the contract for records that do not name their columns.

    It is the table's contract, or else another feed's with the key that this feed states. Raises
    ContractError if the stated key differs from the key of the table's contract.
    """
    config, contract = feed.table(table), borrowed(table) if known is None else known
    key = () if config is None else config.key
    if contract is None or not key or _lower(key) == _lower([column.name for column in contract.key]):
        return contract
    stated = _keyed(contract, key)
    return stated if known is None else known.evolved_to(stated)


def _keyed(contract: Contract, key: Sequence[str]) -> Contract:
    known = set(_lower(contract.names))
    if lacking := [name for name in key if name.lower() not in known]:
        raise ContractError(
            f"`key:` of {contract.table} has {shown(lacking)}, but the table has only the columns "
            f"{shown(contract.names)}",
            "correct `key:` in the feed's YAML",
        )
    return keyed(contract, key)


def _lower(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]
