"""What the matrix is made of: faults, places, ways to go on; and which of its cells are run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice, zip_longest
from random import Random
from typing import NamedTuple

from changeledger.model.window import STAGES
from tests.faults.matrix.effects import CONTROL, LAKE

# How it goes on after the fault.
RETRIES = {
    "task": "the task alone",
    "run": "the run from extract",
    "next": "the next window instead",
    "earlier": "an earlier window cleared first",
    "backfills": "three backfills at once",
}


class Fault(NamedTuple):
    """`places`: at effects of this kind (`any`: of both), between stages, or at the source.

    `cells`: how many are chosen; 0 for one at each of them.
    """

    name: str
    says: str
    places: str
    cells: int
    stages: Sequence[str] = STAGES
    window: int = 2


FAULTS = (
    Fault("killed", "SIGKILL of the job between two effects", "any", 0),
    Fault("killed_during", "SIGKILL of the job while an effect happens", "any", 8),
    Fault("spark_killed", "SIGKILL of the Spark Connect server, the driver's JVM", "any", 5),
    Fault("orphan", "SIGKILL of the worker's supervisor: the job writes on beside its own retry", "any", 8),
    Fault("stopped", "SIGSTOP, past the lease, and on again when others have gone on", "any", 8),
    Fault("control_refused", "the control store refuses a transaction", CONTROL, 5),
    Fault("control_lost", "the control store commits, and the answer is lost", CONTROL, 8),
    Fault("control_locked", "the control store is locked by another program", "any", 4),
    Fault("catalog_refused", "Spark refuses a write", LAKE, 4),
    Fault("catalog_lost", "the lake is written, and the answer is lost", LAKE, 8),
    Fault("catalog_locked", "the catalog is locked by another program", "any", 4),
    Fault("stores_refused", "catalog and control store, in PostgreSQL, refuse connections", "any", 5),
    Fault("stores_restarted", "catalog and control store, in PostgreSQL, restart", "any", 5),
    Fault("disk_full", "the disk of the lake and the stores is full", "any", 5),
    Fault("read_only", "the lake's folders are read-only", LAKE, 4),
    Fault("clock_ahead", "the worker's clock is two hours ahead, then it is killed", "any", 4),
    Fault("clock_behind", "the worker's clock is two hours behind, then it is killed", "any", 4),
    Fault(
        "by_hand", "a killed publish is completed by `changeledger release complete`", "any", 2, ("publish",)
    ),
    Fault(
        "repeated", "a stage is run again, and publish follows without those between", "stage", 4, STAGES[:4]
    ),
    Fault("maintained", "`maintain` before the stage", "stage", 4, STAGES[1:]),
    Fault("replayed", "`quarantine replay` before the stage", "stage", 4, STAGES[1:], 3),
    Fault("paused", "paused before the stage, and another window is run meanwhile", "stage", 4, STAGES[1:]),
    Fault("source_gone", "the source does not answer", "source", 1, STAGES[:1]),
    Fault("source_gone_during", "the source goes while it is read", "source", 1, STAGES[:1]),
    Fault("cleaned", "a clean-up removes what was not read", "source", 1, STAGES[:1]),
    Fault("cleaned_during", "a clean-up removes it while it is read", "source", 1, STAGES[:1]),
    Fault(
        "cleaned_uncounted",
        "a clean-up removes it between the check and the count",
        "source",
        1,
        STAGES[:1],
    ),
    Fault(
        "restored_shorter", "the source is restored, and ends before what was read", "source", 1, STAGES[:1]
    ),
    Fault("restored_longer", "the source is restored, and has grown beyond it", "source", 1, STAGES[:1]),
    Fault("broker_gone", "the broker does not answer", "topic", 1, STAGES[:1]),
    Fault("retention", "retention removes what was not read", "topic", 1, STAGES[:1]),
    Fault("retention_during", "retention removes it while it is read", "topic", 1, STAGES[:1]),
    Fault("topic_replaced", "the topic is created again while it is read", "topic", 1, STAGES[:1]),
    Fault("topic_shorter", "the topic is created again, and is shorter", "topic", 1, STAGES[:1]),
    Fault(
        "topic_longer",
        "the topic is created again, and has grown beyond what was read",
        "topic",
        1,
        STAGES[:1],
    ),
    Fault("partitions_added", "the topic gets a partition", "topic", 1, STAGES[:1]),
    Fault("producer_ahead", "a message's timestamp is a day ahead", "topic", 1, STAGES[:1]),
    Fault("hanging_transaction", "a producer's transaction stays open", "topic", 1, STAGES[:1]),
    Fault("half_done", "SIGKILL of the job, and its task is marked as a success", "any", 0, STAGES[:-1]),
    Fault("together", "a job that was left behind and its retry write at the same moment", LAKE, 0),
)
BY_NAME = {fault.name: fault for fault in FAULTS}
_AT_EFFECTS = ("any", LAKE, CONTROL)


class Effect(NamedTuple):
    """One external effect of an undisturbed stage, numbered from 1."""

    at: int
    kind: str
    label: str


# By window and stage.
Known = Mapping[tuple[int, str], Sequence[Effect]]


class Cell(NamedTuple):
    """`at` 0: before the stage, or at the source."""

    fault: str
    window: int
    stage: str
    at: int
    retry: str
    seed: int = 0

    @property
    def id(self) -> str:
        place = f"{self.fault}-w{self.window}-{self.stage}-{self.at:02d}-{self.retry}"
        return f"{place}-seed{self.seed}" if self.seed else place


def chosen(known: Known) -> list[Cell]:
    """Every fault and every effect at least once, every way to go on by turns.

    One cell of each fault first, then another of each: whatever time there is comes to all of them.
    """
    retries = cycle(RETRIES)
    by_fault = [[*_of_fault(fault, known, retries)] for fault in FAULTS]
    return [cell for turn in zip_longest(*by_fault) for cell in turn if cell is not None]


def _of_fault(fault: Fault, known: Known, retries: Iterator[str]) -> Iterator[Cell]:
    if fault.places in _AT_EFFECTS and not fault.cells:
        places = [(s, at) for s in fault.stages for at in _places(fault, known[fault.window, s])]
        for stage, at in Random(0).sample(places, len(places)):
            yield Cell(fault.name, fault.window, stage, at, _after(fault, retries))
        # What only a feed's first window does.
        seen = {e.label for stage in fault.stages for e in known[fault.window, stage]}
        for stage in fault.stages:
            for effect in known[1, stage]:
                if effect.label not in seen and fault.places in {"any", effect.kind}:
                    yield Cell(fault.name, 1, stage, effect.at, _after(fault, retries))
    elif fault.places in _AT_EFFECTS:
        for stage, at in _spread(fault, known):
            yield Cell(fault.name, fault.window, stage, at, _after(fault, retries))
    else:
        for stage in islice(cycle(fault.stages), fault.cells):
            yield Cell(fault.name, fault.window, stage, 0, _after(fault, retries))


def _places(fault: Fault, effects: Sequence[Effect]) -> list[int]:
    """Where the fault can be; one that is at any effect is once after the last of them, too."""
    if fault.places == "any":
        return [*range(1, len(effects) + 2)]
    return [effect.at for effect in effects if effect.kind == fault.places]


def _after(fault: Fault, retries: Iterator[str]) -> str:
    """An action between two stages, or of the source, is followed by the run itself."""
    if fault.places in {"source", "topic", "stage"} or fault.name in {"by_hand", "half_done"}:
        return "run" if fault.places in {"source", "topic"} else "task"
    return next(retries)


def _spread(fault: Fault, known: Known) -> list[tuple[str, int]]:
    """Places of the fault: each stage by turns, and within a stage far from each other."""
    places: dict[str, list[int]] = {}
    for stage in fault.stages:
        found = [e.at for e in known[fault.window, stage] if fault.places in {"any", e.kind}]
        if fault.name == "by_hand":
            # Between the commit point and its completion.
            committed = next(e.at for e in known[fault.window, stage] if "insert releases" in e.label)
            completed = next(e.at for e in known[fault.window, stage] if "update releases" in e.label)
            found = [at for at in found if committed < at <= completed]
        if found:
            places[stage] = found
    # Another begin for each fault: together they come to more of the effects.
    begin = [f.name for f in FAULTS].index(fault.name)
    turns = cycle(places)
    used: dict[str, int] = {}
    reported = []
    for stage in islice(turns, fault.cells):
        nth = used[stage] = used.get(stage, 0) + 1
        found = places[stage]
        reported.append((stage, found[(begin * 3 + nth * max(1, len(found) // 2)) % len(found)]))
    return list(dict.fromkeys(reported))


def by_seed(known: Known, first: int = 1) -> Iterator[Cell]:
    """Random cells without an end: the same seed is the same cell."""
    faults = [fault for fault in FAULTS if fault.places in _AT_EFFECTS and fault.name != "by_hand"]
    seed = first
    while True:
        rng = Random(seed)
        fault, window, stage = rng.choice(faults), rng.choice((1, 2)), rng.choice(STAGES)
        places = [e.at for e in known[window, stage] if fault.places in {"any", e.kind}]
        if places and stage in fault.stages:
            yield Cell(fault.name, window, stage, rng.choice(places), rng.choice([*RETRIES]), seed)
        seed += 1


def quick(known: Known) -> list[Cell]:
    """Few, at the places where most can go wrong."""

    def at(stage: str, label: str, nth: int = 1) -> int:
        return [e.at for e in known[2, stage] if e.label.startswith(label)][nth - 1]

    committed = at("publish", "insert releases")
    mains = [e.at for e in known[2, "publish"] if e.label.startswith("set ") and e.label.endswith(" main")]
    return [
        Cell("killed", 2, "extract", at("extract", "append raw"), "task"),
        Cell("killed", 2, "reconcile", len(known[2, "reconcile"]), "task"),
        Cell("killed", 2, "publish", committed + 1, "next"),
        Cell("killed", 2, "publish", mains[1], "task"),
        Cell("control_lost", 2, "publish", committed, "task"),
        Cell("orphan", 2, "publish", committed, "task"),
        Cell("repeated", 2, "normalize", 0, "task"),
        Cell("cleaned_during", 2, "extract", 0, "run"),
        Cell("cleaned_uncounted", 2, "extract", 0, "run"),
        Cell("half_done", 2, "extract", at("extract", "append raw"), "task"),
        Cell("together", 2, "extract", at("extract", "append raw"), "task"),
        Cell("together", 2, "publish", at("publish", "append releases"), "task"),
    ]
