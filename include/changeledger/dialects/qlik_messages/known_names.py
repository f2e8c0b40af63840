"""Looks up names of tables regardless of case, and by the end of a topic's name.

A feed remembers every schema id, so the lookup must not go through all names.
"""

from __future__ import annotations

from collections.abc import Iterable


class KnownNames:
    """Distinct names (`schema.table`), in the order in which they were added."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._places: dict[str, int] = {}
        # Names by themselves and by their part without the schema, in lower case.
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
        """Returns the names that equal the table's, except for case."""
        return self._whole.get(table.lower(), [])

    def ending(self, name: str, *, with_schema: bool = True) -> list[str]:
        """Returns the tables with whose names `name` ends.

        Of names that differ only in case, it returns the exact one, or else one of them. `with_schema`:
        compares whole names, not only the part without the schema.
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
