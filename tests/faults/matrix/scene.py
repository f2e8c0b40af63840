"""Runs one cell: the fault, what goes on after it, and the comparison of the tables at the end."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from random import Random
from typing import NamedTuple

from changeledger import exit_codes
from changeledger.model.window import STAGES
from tests.faults.matrix import actions, remote, sources, topics
from tests.faults.matrix.base import Base, dumped
from tests.faults.matrix.cells import Cell
from tests.faults.matrix.effects import Fault
from tests.faults.matrix.faults import BY_NAME
from tests.faults.matrix.jobs import Hangs, Job
from tests.faults.matrix.judge import differences
from tests.faults.matrix.lab import FEED, Lab
from tests.faults.matrix.operator import Defect, Operator, Stopped, last_error
from tests.faults.matrix.stores import Stores
from tests.faults.matrix.troubles import OF_DISKS, TROUBLES

SURVIVED, STOPPED, DEFECT, SKIPPED = "survived", "stopped", "defect", "skipped"
# A job may wait for a lock or for a lost server; then its supervisor ends it.
_GIVES_UP_SECONDS = 60.0
# Two writes are planned in that time, and reach their commits; they wait for twice as long.
_READY_SECONDS = 1.5
_CLOCKS = {"clock_ahead": 7200.0, "clock_behind": -7200.0}
_IN_CLIENT = {
    "control_refused": "refuse",
    "catalog_refused": "refuse",
    "control_lost": "lose",
    "catalog_lost": "lose",
    **dict.fromkeys(("killed", "half_done", "by_hand", *_CLOCKS), "kill"),
}


class Verdict(NamedTuple):
    """The result of a cell."""

    outcome: str
    detail: str


def play(lab: Lab, base: Base, cell: Cell) -> Verdict:
    """Plays the cell, and returns its verdict. The logs of a defect stay."""
    logs = lab.folder / "logs" / "cells" / cell.id
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    state = base.states[cell.window, cell.stage].copy(lab.disk / "cells" / cell.id)
    who = Operator(lab, state, lab.place(state), logs, at_once=4 if cell.seed else 1)
    try:
        verdict = _played(who, base, cell)
    except Stopped as stopped:
        verdict = Verdict(STOPPED, str(stopped))
    except (Defect, Hangs) as defect:
        verdict = Verdict(DEFECT, str(defect))
    except NotHere as reason:
        verdict = Verdict(SKIPPED, str(reason))
    lab.jobs.end_all()
    _SLEEPING.clear()
    notes = "; ".join(who.notes)
    (logs / "notes.txt").write_text(f"{verdict.outcome}: {verdict.detail}\n{notes}\n")
    if verdict.outcome == DEFECT:
        for file in state.folder.glob("*.db*"):
            shutil.copy(file, logs)
    else:
        shutil.rmtree(logs)
    shutil.rmtree(state.folder)
    return verdict if verdict.detail else verdict._replace(detail=notes)


class NotHere(Exception):
    """The machine cannot do that."""


def _played(who: Operator, base: Base, cell: Cell) -> Verdict:
    places = BY_NAME[cell.fault].places
    if places == "source":
        return Verdict(*sources.play(who, base, cell))
    if places == "topic":
        return Verdict(*topics.play(who, base, cell))
    read_again = cell.retry in {"backfills", "earlier"} or cell.fault in {
        "paused",
        "replayed",
        "orphan",
        "stopped",
    }
    if places == "stage":
        last = actions.play(who, cell)
    else:
        with _stores(who, cell):
            return _at_effect(who, base, cell, read_again)
    return _verdict(who, base, last, read_again)


def _at_effect(who: Operator, base: Base, cell: Cell, read_again: bool) -> Verdict:
    is_done = disturb(who, cell)
    return _verdict(who, base, go_on(who, cell, is_done), read_again)


def _verdict(who: Operator, base: Base, last: int, read_again: bool) -> Verdict:
    reported = dumped(who.lab, who.place, who.folder, who.folder / "tables.json")
    wrong = differences(base.tables[last], reported, read_again=read_again)
    if wrong:
        raise Defect(f"window {last} is released, and wrong: {'; '.join(wrong)}")
    return Verdict(STOPPED if who.remedies else SURVIVED, "")


@contextmanager
def _stores(who: Operator, cell: Cell) -> Iterator[None]:
    """Uses stores in PostgreSQL for faults that only a server has."""
    if not cell.fault.startswith("stores_"):
        yield
        return
    who.stores = Stores(who.lab, "stores_" + cell.id.replace("-", "_")[-40:])
    try:
        who.stores.copy_from(who.state)
        who.place = who.stores.place(who.place)
        yield
    finally:
        who.stores.drop()


def disturb(who: Operator, cell: Cell) -> bool:
    """Runs the stage with its fault until that is over. Returns whether the stage is done all the same."""
    if cell.fault in _IN_CLIENT:
        return _ended(who, _start(who, cell, Fault(_IN_CLIENT[cell.fault], cell.at)))
    if cell.fault == "killed_during":
        after = Random(cell.id).choice((0.0, 0.02, 0.1, 0.3, 1.0))
        return _ended(who, _start(who, cell, Fault("kill_during", cell.at, after)))
    if cell.fault == "orphan":
        return _orphan(who, cell)
    if cell.fault == "together":
        return _together(who, cell)
    if cell.fault == "stopped":
        # `go_on` wakes it once the others are done.
        job = _start(who, cell, Fault("stop", cell.at))
        job.await_meeting()
        who.let_an_hour_pass()
        _SLEEPING[cell.id] = job
        return False
    if cell.fault in OF_DISKS and not who.lab.has_own_disk:
        raise NotHere("no disk of its own can be mounted here")
    job = _start(who, cell, Fault("meet", cell.at))
    with ExitStack() as over:
        if job.await_meeting():
            over.enter_context(_trouble(who, cell.fault))
            job.go_on()
        return _ended(who, job)


def _trouble(who: Operator, fault: str) -> AbstractContextManager[None]:
    if who.lab.remote is not None and remote.is_at_proxy(fault):
        return remote.trouble(who.lab.remote, fault)
    return TROUBLES[fault](who)


_SLEEPING: dict[str, Job] = {}


def _start(who: Operator, cell: Cell, fault: Fault) -> Job:
    clock = _CLOCKS.get(cell.fault, 0)
    return who.lab.stage(
        who.place, who.folder, cell.stage, cell.window, fault, clock=clock, at_once=who.at_once
    )


def _ended(who: Operator, job: Job) -> bool:
    """Waits for the disturbed job, or ends it as its supervisor. Returns whether it succeeded."""
    try:
        code = job.wait(_GIVES_UP_SECONDS)
    except Hangs:
        who.notes.append(f"{job.name} was ended by its supervisor")
        job.signal(9)
        code = job.wait()
    if code not in {0, exit_codes.NOTHING}:
        who._note(job, code)
    return code == 0


def _orphan(who: Operator, cell: Cell) -> bool:
    """Starts the stage's retry beside an orphaned job, and lets both continue."""
    orphan = _start(who, cell, Fault("orphan", cell.at))
    orphan.await_meeting()
    retry = who.lab.stage(who.place, who.folder, cell.stage, cell.window, at_once=who.at_once)
    # Waits until the retry has its lease.
    while retry.code is None and len(retry.written()) < 2:
        time.sleep(0.05)
    orphan.go_on()
    _ended(who, orphan)
    return _ended(who, retry)


def _together(who: Operator, cell: Cell) -> bool:
    """A job and its retry both have a write ready, each based on the lake before the other's write."""
    job = _start(who, cell, Fault("hold", cell.at))
    if not job.await_meeting():
        return _ended(who, job)
    labels = [effect["label"] for effect in job.written()]
    same = Fault("hold", labels.count(labels[-1]), label=labels[-1])
    retry = _start(who, cell, same)
    retry.await_meeting()
    with closing(sqlite3.connect(who.state.catalog, timeout=20)) as other:
        # Readers now see the same state, and committers wait.
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        job.go_on()
        retry.go_on()
        time.sleep(_READY_SECONDS)
    _ended(who, job)
    _require_known_end(job)
    return _ended(who, retry)


def _require_known_end(job: Job) -> None:
    """Raises Defect unless the job succeeded (after its last write) or reports its lost lease."""
    if job.code not in {0, exit_codes.NOTHING, exit_codes.HELD}:
        raise Defect(f"{job.name} has lost its lease and ends with {job.code}: {last_error(job)}")


def go_on(who: Operator, cell: Cell, is_done: bool) -> int:
    """Goes on after the fault, and returns the window up to which all is released."""
    stages = STAGES[STAGES.index(cell.stage) + (is_done or cell.fault == "half_done") :]
    last = cell.window
    if cell.fault == "by_hand":
        who.let_an_hour_pass()
        if who.command("release", "complete", FEED).code != 0:
            raise Defect(f"`release complete` does not help: {who.notes[-1]}")
    if cell.retry == "task":
        who.carry(cell.window, stages)
    elif cell.retry == "run" or (cell.retry == "earlier" and cell.window == 1):
        who.carry(cell.window)
    elif cell.retry == "earlier":
        who.carry(cell.window - 1)
        who.carry(cell.window)
    elif cell.retry == "next":
        last += 1
        who.carry(last)
    else:
        last = 3
        who.backfills((1, 2, 3))
    sleeping = _SLEEPING.pop(cell.id, None)
    if sleeping is not None:
        sleeping.go_on()
        _ended(who, sleeping)
        # Before its first effect it had no lease to lose: it takes one, and checks what it builds on.
        if cell.at > 1 or not last_error(sleeping).startswith("StageOrderError"):
            _require_known_end(sleeping)
    return last
