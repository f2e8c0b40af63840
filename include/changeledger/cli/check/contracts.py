"""Key and types of a table, as its records or its change table have them."""

from __future__ import annotations

from changeledger.cli.check.outcome import FAILED, OK, Check
from changeledger.model.column_names import shown
from changeledger.model.contract import Contract

_MOST_COLUMNS = 12


def described(contract: Contract, where: str = "") -> Check:
    """`where`: the change table that it was read from."""
    check = f"table {contract.table}"
    if not contract.key:
        return Check(
            check, FAILED, f"{where}nothing names its key",
            f"state `key:` of {contract.table} in the feed's YAML",
        )  # fmt: skip
    key = ", ".join(f"{column.name} {column.type}" for column in contract.key)
    others = [f"{shown([c.name])} {c.type}" for c in contract.columns if not c.key_position]
    more = len(others) - _MOST_COLUMNS
    listed = ", ".join(others[:_MOST_COLUMNS]) + (f" and {more} more" if more > 0 else "")
    return Check(check, OK, f"{where}key {key}; columns {listed or 'none beside'}")
