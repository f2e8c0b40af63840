"""The cells of the matrix: a fault at a place of a lake, and a way to go on; and the choice among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice, zip_longest
from random import Random
from typing import NamedTuple

from changeledger.model.window import STAGES
from tests.faults.matrix.faults import AT_EFFECTS, OF_LAKES, RETRIES, Fault


class Effect(NamedTuple):
    """One external effect of an undisturbed stage, numbered from 1."""

    at: int
    kind: str
    label: str


# By window and stage.
Known = Mapping[tuple[int, str], Sequence[Effect]]


class Cell(NamedTuple):
    """One cell. `at` 0 means before the stage, or at the source."""

    fault: str
    window: int
    stage: str
    at: int
    retry: str
    seed: int = 0
    lake: str = "disk"

    @property
    def id(self) -> str:
        place = f"{self.fault}-w{self.window}-{self.stage}-{self.at:02d}-{self.retry}"
        on = "" if self.lake == "disk" else f"-{self.lake}"
        return f"{place}{on}-seed{self.seed}" if self.seed else f"{place}{on}"


def chosen(known: Known, lake: str = "disk") -> list[Cell]:
    """Returns every fault and every effect at least once, with the ways to go on in turn.

    One cell of each fault comes first, then another of each, so that a run of any length reaches all faults.
    """
    retries = cycle(RETRIES)
    by_fault = [[*_of_fault(fault, known, retries)] for fault in OF_LAKES[lake]]
    turns = zip_longest(*by_fault)
    return [cell._replace(lake=lake) for turn in turns for cell in turn if cell is not None]


def _of_fault(fault: Fault, known: Known, retries: Iterator[str]) -> Iterator[Cell]:
    if fault.places in AT_EFFECTS and not fault.cells:
        places = [(s, at) for s in fault.stages for at in _places(fault, known[fault.window, s])]
        for stage, at in Random(0).sample(places, len(places)):
            yield Cell(fault.name, fault.window, stage, at, _after(fault, retries))
        # Effects that only a feed's first window has.
        seen = {e.label for stage in fault.stages for e in known[fault.window, stage]}
        for stage in fault.stages:
            for effect in known[1, stage]:
                if effect.label not in seen and fault.places in {"any", effect.kind}:
                    yield Cell(fault.name, 1, stage, effect.at, _after(fault, retries))
    elif fault.places in AT_EFFECTS:
        for stage, at in _spread(fault, known):
            yield Cell(fault.name, fault.window, stage, at, _after(fault, retries))
    else:
        for stage in islice(cycle(fault.stages), fault.cells):
            yield Cell(fault.name, fault.window, stage, 0, _after(fault, retries))


def _places(fault: Fault, effects: Sequence[Effect]) -> list[int]:
    """Returns the places of a fault. One that can be at any effect is also once after the last."""
    if fault.places == "any":
        return [*range(1, len(effects) + 2)]
    return [effect.at for effect in effects if effect.kind == fault.places]


def _after(fault: Fault, retries: Iterator[str]) -> str:
    """Returns the way to go on, which is fixed for actions between two stages and at the source."""
    if fault.places in {"source", "topic", "stage"} or fault.name in {"by_hand", "half_done"}:
        return "run" if fault.places in {"source", "topic"} else "task"
    return next(retries)


def _spread(fault: Fault, known: Known) -> list[tuple[str, int]]:
    """Returns places of the fault: the stages in turn, and within a stage far from each other."""
    places: dict[str, list[int]] = {}
    for stage in fault.stages:
        positions = [e.at for e in known[fault.window, stage] if fault.places in {"any", e.kind}]
        if fault.name == "by_hand":
            # Between the commit point and its completion.
            committed = next(e.at for e in known[fault.window, stage] if "insert releases" in e.label)
            completed = next(e.at for e in known[fault.window, stage] if "update releases" in e.label)
            positions = [at for at in positions if committed < at <= completed]
        if positions:
            places[stage] = positions
    # Each fault begins elsewhere, so that all faults together reach more effects.
    begin = next(faults.index(fault) for faults in OF_LAKES.values() if fault in faults)
    turns = cycle(places)
    used: dict[str, int] = {}
    reported = []
    for stage in islice(turns, fault.cells):
        nth = used[stage] = used.get(stage, 0) + 1
        positions = places[stage]
        reported.append((stage, positions[(begin * 3 + nth * max(1, len(positions) // 2)) % len(positions)]))
    return list(dict.fromkeys(reported))


def by_seed(known: Known, first: int = 1, lake: str = "disk") -> Iterator[Cell]:
    """Yields random cells without end. The same seed gives the same cell."""
    faults = [fault for fault in OF_LAKES[lake] if fault.places in AT_EFFECTS and fault.name != "by_hand"]
    seed = first
    while True:
        rng = Random(seed)
        fault, window, stage = rng.choice(faults), rng.choice((1, 2)), rng.choice(STAGES)
        places = [e.at for e in known[window, stage] if fault.places in {"any", e.kind}]
        if places and stage in fault.stages:
            yield Cell(fault.name, window, stage, rng.choice(places), rng.choice([*RETRIES]), seed, lake)
        seed += 1


def quick(known: Known) -> list[Cell]:
    """Returns the cells of the tests.

    They are kills at a write of the lake, at a transaction of the control store and after the commit point,
    and one other fault of each way of playing, except topics.
    """

    def at(stage: str, label: str, nth: int = 1) -> int:
        return [e.at for e in known[2, stage] if label in e.label][nth - 1]

    committed = at("publish", "insert releases")
    mains = [e.at for e in known[2, "publish"] if e.label.startswith("set ") and e.label.endswith(" main")]
    return [
        Cell("killed", 2, "extract", at("extract", "append raw"), "task"),
        Cell("killed", 2, "reconcile", at("reconcile", "append", 2), "task"),
        Cell("killed", 2, "publish", committed + 1, "run"),
        Cell("killed", 2, "publish", mains[1], "task"),
        Cell("control_lost", 2, "publish", committed, "task"),
        Cell("orphan", 2, "publish", committed, "task"),
        Cell("repeated", 2, "audit", 0, "task"),
        Cell("half_done", 2, "audit", at("audit", "insert audits"), "task"),
        Cell("cleaned_during", 2, "extract", 0, "run"),
        Cell("together", 2, "publish", at("publish", "append releases"), "task"),
    ]
