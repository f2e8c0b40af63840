"""Names of tables, looked up without their case, and by what a topic's name ends with.

Every schema id is remembered: a name is not looked for by going through all of them.
"""

from __future__ import annotations

from collections.abc import Iterable


class KnownNames:
    """Names (`schema.table`) in the order in which they came, each once."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._places: dict[str, int] = {}
        # By names, and by names without their schema, in lower case.
        self._whole: dict[str, list[str]] = {}
        self._without_schema: dict[str, list[str]] = {}
        for name in names:
            self.add(name)

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def __len__(self) -> int:
        return len(self._places)

    def add(self, name: str) -> None:
        if name not in self._places:
            self._places[name] = len(self._places)
            self._whole.setdefault(name.lower(), []).append(name)
            self._without_schema.setdefault(_table(name).lower(), []).append(name)

    def same(self, table: str) -> list[str]:
        """The names that are a table's but for their case."""
        return self._whole.get(table.lower(), [])

    def ending(self, name: str, *, with_schema: bool = True) -> list[str]:
        """The tables whose names a name ends with; of names that differ in case only the very one, else one.

        `with_schema`: by their whole names.
        """
        parts, endings = name.split("."), self._whole if with_schema else self._without_schema
        tables = [
            table for at in range(len(parts)) for table in endings.get(".".join(parts[at:]).lower(), ())
        ]
        tables.sort(key=self._places.__getitem__, reverse=True)
        exact = [t for t in tables if f".{name}".endswith(f".{t if with_schema else _table(t)}")]
        return list({table.lower(): table for table in (*tables, *exact)}.values())


def _table(name: str) -> str:
    return name.split(".", 1)[1]
