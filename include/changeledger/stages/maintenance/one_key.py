"""SQL conditions that find the rows of one key, in each of the forms in which the lake has keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from changeledger.dialects.tables import keys
from changeledger.kernels import display
from changeledger.model.change import literal, quoted
from changeledger.model.contract import Contract
from changeledger.model.errors import ConfigError


@dataclass(frozen=True)
class OneKey:
    """The values of the key's columns as text, by the contract's names."""

    contract: Contract
    values: Mapping[str, str]

    @classmethod
    def of(cls, contract: Contract, cells: Mapping[str, str]) -> OneKey:
        """In the lake's form, whatever the form of the cells: a GUID in lower case, a `char` without blanks.

        Raises ConfigError if not each column of the key is named, or a text is no value of its column.
        """
        named = contract.key_named(cells)
        texts = {name: display.texts(cell)[0].as_py() for name, cell in keys.typed(named, contract).items()}
        unfit = next((name for name, text in texts.items() if text is None), None)
        if unfit is not None:
            raise ConfigError(
                f"{named[unfit]!r} is no value of {contract.table}.{unfit}", "write it as the lake has it"
            )
        return cls(contract, texts)

    def columns(self, prefix: str = "") -> str:
        """In columns, or in fields after a `prefix`."""
        return " AND ".join(self._same(f"{prefix}{quoted(name)}", name) for name in self.values)

    def in_ledger(self) -> str:
        """Changes of the key, onto it, and away from it."""
        sides = ("key.", "previous_key.", "before.", "after.")
        return " OR ".join(f"coalesce({self.columns(side)}, false)" for side in sides)

    def in_json(self, column: str = "key") -> str:
        """In a column of JSON."""
        cells = f"from_json({column}, {literal('map<string,string>')})"
        same = [self._same_in_json(f"{cells}[{literal(name)}]", name) for name in self.values]
        return " AND ".join(f"coalesce({condition}, false)" for condition in same)

    def _value(self, name: str) -> str:
        if self._type(name) == "binary":
            return f"unhex({literal(self.values[name].removeprefix('0x'))})"
        return f"CAST({literal(self.values[name])} AS {self._type(name)})"

    def _same(self, cell: str, name: str) -> str:
        return f"try_cast({cell} AS {self._type(name)}) = {self._value(name)}"

    def _same_in_json(self, cell: str, name: str) -> str:
        if self._type(name) == "binary":
            return f"try_to_binary({cell}, 'base64') = {self._value(name)}"
        return self._same(cell, name)

    def _type(self, name: str) -> str:
        return next(c.spark_type for c in self.contract.key if c.name == name)
