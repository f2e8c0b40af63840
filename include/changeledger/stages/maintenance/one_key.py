"""SQL conditions for the rows of one key, in each form in which the lake stores keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from changeledger.dialects.tables import keys
from changeledger.kernels import display
from changeledger.model.change import literal, quoted
from changeledger.model.contract import Contract
from changeledger.model.errors import ConfigError


def in_any_case(name: str) -> str:
    """Returns the column as text that compares without regard to case.

    Spark's `lower` depends on the language of its JVM: in Turkish, `I` becomes a dotless `i`.
    """
    return f"{quoted(name)} COLLATE UTF8_LCASE"


@dataclass(frozen=True)
class OneKey:
    """A key. `values`: the values of its columns as text, by the contract's names."""

    contract: Contract
    values: Mapping[str, str]

    @classmethod
    def of(cls, contract: Contract, cells: Mapping[str, str]) -> OneKey:
        """Converts cells to the lake's form, such as a GUID in lower case or a `char` without blanks.

        Raises ConfigError if a column of the key is missing, or a text is not a value of its column.
        """
        named = contract.key_named(cells)
        texts = {name: display.texts(cell)[0].as_py() for name, cell in keys.typed(named, contract).items()}
        unfit = next((name for name, text in texts.items() if text is None), None)
        if unfit is not None:
            raise ConfigError(
                f"{named[unfit]!r} is not a value of {contract.table}.{unfit}", "write it as the lake has it"
            )
        return cls(contract, texts)

    def columns(self, prefix: str = "") -> str:
        """Returns the condition for a key in columns, or in struct fields with this `prefix`."""
        return " AND ".join(self._same(f"{prefix}{quoted(name)}", name) for name in self.values)

    def in_ledger(self) -> str:
        """Returns the condition for ledger rows: changes of the key, to it, and away from it."""
        sides = ("key.", "previous_key.", "before.", "after.")
        return " OR ".join(f"coalesce({self.columns(side)}, false)" for side in sides)

    def in_json(self, column: str = "key") -> str:
        """Returns the condition for a key in a JSON column."""
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
