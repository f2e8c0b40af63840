"""Fifty consecutive windows of one feed, each with a fault, so that what one fault leaves meets the next.

Places and ways to go on are chosen by seed. At the end the tables must equal those of one undisturbed window
over the whole log, the current rows those of the log itself, and raw the source.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from changeledger.model.window import STAGES
from sourcelab.log import Log, simulate
from tests.faults.matrix import actions
from tests.faults.matrix.base import code, dumped
from tests.faults.matrix.cells import Cell, Known
from tests.faults.matrix.faults import FAULTS, Fault
from tests.faults.matrix.judge import BOOKS, differences
from tests.faults.matrix.lab import Lab, State, Windows, moment
from tests.faults.matrix.operator import Operator
from tests.faults.matrix.outcomes import Soak
from tests.faults.matrix.scene import disturb, go_on
from tests.faults.matrix.troubles import OF_DISKS

FILE = "soak.json"
COUNT = 50
_TRANSACTIONS = 6 * COUNT
_ACTIONS = ("repeated", "maintained", "replayed")
_RETRIES = ("task", "run", "earlier")


def run(folder: Path, known: Known, seed: int, say: Callable[[str], None]) -> Soak:
    """Runs the soak. `known`: the effects of each stage. Raises Defect if there is no way to go on."""
    begin = time.monotonic()
    log = simulate(5, _TRANSACTIONS)
    spans = windows(log)
    # The last window is the whole log, for the reference.
    whole = (spans[0][0], spans[-1][1])
    with Lab(folder / "soak", own_disk=True, log=log, windows=(*spans, whole)) as lab:
        expected = _undisturbed(lab)
        say("the undisturbed window is released")
        who, met = _operator(lab, "disturbed"), Counter[str]()
        remedies = 0
        for cell in cells(known, seed, has_disk=lab.has_own_disk):
            who.remedies = 0
            met[cell.fault] += _play(who, cell)
            remedies += who.remedies
            say(f"{time.monotonic() - begin:5.0f} s  {cell.id}")
        wrong = _wrong(lab, expected, dumped(lab, who.place, who.folder, who.folder / "tables.json"))
        soak = Soak(seed, COUNT, met, remedies, wrong, round(time.monotonic() - begin), code(), moment())
    soak.save(folder / FILE)
    say("; ".join(wrong) or "nothing is lost, wrong or double")
    return soak


def windows(log: Log) -> Windows:
    """Returns windows with equal numbers of transactions; ends are exclusive."""
    each = len(log.transactions) // COUNT
    ends = [log.transactions[at * each].commit_time for at in range(1, COUNT)]
    first = log.transactions[0].commit_time - timedelta(hours=1)
    return tuple(pairwise([first, *ends, log.transactions[-1].commit_time + timedelta(hours=1)]))


def _operator(lab: Lab, name: str) -> Operator:
    state, logs = State(lab.disk / "states" / name), lab.folder / "logs" / name
    state.folder.mkdir(parents=True)
    logs.mkdir(parents=True, exist_ok=True)
    return Operator(lab, state, lab.place(state), logs)


def _undisturbed(lab: Lab) -> dict[str, Any]:
    who = _operator(lab, "undisturbed")
    who.carry(COUNT + 1)
    return dumped(lab, who.place, who.folder, who.folder / "tables.json")


def cells(known: Known, seed: int, *, has_disk: bool) -> list[Cell]:
    """Returns one cell per window, with all faults in turn, in random order."""
    rng = Random(seed)
    faults = [fault for fault in FAULTS if is_possible(fault, has_disk=has_disk)]
    chosen: list[Cell] = []
    while len(chosen) < COUNT:
        for fault in rng.sample(faults, len(faults)):
            window = len(chosen) + 1
            stage = rng.choice([name for name in fault.stages if window > 1 or name != "extract"])
            effects = known[min(window, 2), stage]
            places = [e.at for e in effects if fault.places in {"any", e.kind}] or [len(effects)]
            at = 0 if fault.name in _ACTIONS else rng.choice(places)
            chosen.append(Cell(fault.name, window, stage, at, rng.choice(_RETRIES), seed))
    return chosen[:COUNT]


def is_possible(fault: Fault, *, has_disk: bool) -> bool:
    if fault.name in _ACTIONS:
        return True
    if fault.name in OF_DISKS and not has_disk:
        return False
    # Stores in PostgreSQL are another place, and `by_hand` needs a specific one.
    return (
        fault.places in {"any", "lake", "control"}
        and not fault.name.startswith("stores_")
        and fault.name != "by_hand"
    )


def _play(who: Operator, cell: Cell) -> bool:
    """Plays the window with its fault, to its release. Returns whether the fault took place."""
    who.carry(cell.window, STAGES[: STAGES.index(cell.stage)])
    if not cell.at:
        actions.play(who, cell)
        return True
    before = len(who.notes)
    is_done = disturb(who, cell)
    go_on(who, cell, is_done)
    return not is_done or len(who.notes) > before


def _wrong(lab: Lab, expected: dict[str, Any], actual: dict[str, Any]) -> list[str]:
    wrong = differences(expected, actual, read_again=True, unlike=BOOKS)
    quarantined = [{*map(_record, tables["quarantine"])} for tables in (expected, actual)]
    if quarantined[0] != quarantined[1]:
        wrong.append(f"quarantined records: {quarantined[1]}, not {quarantined[0]}")
    lost = set(lab.source_rows(COUNT)).symmetric_difference(actual["raw"])
    if lost:
        wrong.append(f"raw and the source differ by {len(lost)} records")
    keys = {json.loads(row)["id"] for row in actual["dbo_customers"]}
    if keys != lab.source_keys():
        wrong.append(f"keys differ from the log's: {sorted(keys ^ lab.source_keys())}")
    return wrong


def _record(row: str) -> str:
    return json.dumps(json.loads(row)["source_position"], sort_keys=True)
