"""Stores outcomes, one JSON object per line, so that a run that ends at any moment can resume."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.faults.matrix.cells import Cell, Effect, Known

DEFECT, SKIPPED = "defect", "skipped"


class Outcome(NamedTuple):
    """The outcome of a cell. `code`: the product's state that was tried. `label`: the effect at the fault."""

    cell: Cell
    label: str
    outcome: str
    detail: str
    seconds: float
    code: str
    at: str


class Outcomes:
    """The file of outcomes. The last outcome of a cell counts."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def add(self, outcome: Outcome) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        reported = {**outcome._asdict(), "cell": outcome.cell._asdict()}
        with self._file.open("a") as file:
            file.write(json.dumps(reported) + "\n")

    def all(self) -> list[Outcome]:
        """Returns all outcomes, except a line that the end of a run has cut off."""
        return list(dict(self._read()).values())

    def _read(self) -> Iterator[tuple[str, Outcome]]:
        if not self._file.exists():
            return
        for line in self._file.read_text().splitlines():
            try:
                reported = json.loads(line)
            except ValueError:
                continue
            cell = Cell(**reported.pop("cell"))
            yield cell.id, Outcome(cell, **reported)

    def remaining(self, cells: Iterable[Cell], code: str) -> Iterator[Cell]:
        """Yields cells without an outcome, in their order.

        Defects, and cells that could not be run, are tried again once the product has changed.
        """
        done = {o.cell.id for o in self.all() if o.outcome not in {DEFECT, SKIPPED} or o.code == code}
        return (cell for cell in cells if cell.id not in done)


class Effects:
    """Stores the effects that the outcomes refer to, for the page."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def save(self, known: Known) -> None:
        reported = {f"{w} {s}": [list(e) for e in effects] for (w, s), effects in known.items()}
        self._file.write_text(json.dumps(reported))

    def load(self) -> Known:
        stored = json.loads(self._file.read_text())
        return {
            (int(name.split()[0]), name.split()[1]): [Effect(*effect) for effect in effects]
            for name, effects in stored.items()
        }


class Soak(NamedTuple):
    """The result of consecutive windows of one feed, each with a fault.

    - `met`: how often each fault took place.
    - `wrong`: what differs at the end.
    """

    seed: int
    windows: int
    met: Mapping[str, int]
    remedies: int
    wrong: Sequence[str]
    seconds: float
    code: str
    at: str

    @classmethod
    def load(cls, file: Path) -> Soak | None:
        return cls(**json.loads(file.read_text())) if file.exists() else None

    def save(self, file: Path) -> None:
        file.write_text(json.dumps(self._asdict()))
