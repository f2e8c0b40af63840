"""The undisturbed run: the states that cells begin from, each stage's effects, and the resulting tables."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from changeledger.config.settings import PROJECT
from changeledger.model.window import STAGES
from tests.faults.matrix import dump
from tests.faults.matrix.cells import Effect, Known
from tests.faults.matrix.jobs import Place
from tests.faults.matrix.lab import FEED, Lab, State


@dataclass(frozen=True)
class Base:
    """The results of the undisturbed run.

    - `states`: the state before each stage of each window, and before the window that would follow.
    - `tables`: the tables after the release of each window.
    """

    states: Mapping[tuple[int, str], State]
    known: Known
    tables: Mapping[int, Mapping[str, Any]]


def code() -> str:
    """Returns a hash of the product's code, which outcomes belong to."""
    hashed = hashlib.sha256()
    for file in sorted((PROJECT / "include" / "changeledger").rglob("*.py")):
        hashed.update(file.read_bytes())
    return hashed.hexdigest()[:10]


def base(lab: Lab, windows: int = 3) -> Base:
    """Returns the stored result if the product has not changed; otherwise runs the windows undisturbed."""
    stored = lab.folder / "base"
    made_by = stored / "code"
    if not (made_by.exists() and made_by.read_text() == f"{code()} {windows}"):
        shutil.rmtree(stored, ignore_errors=True)
        _make(lab, windows)
        shutil.copytree(lab.disk, stored)
        made_by.write_text(f"{code()} {windows}")
    else:
        shutil.copytree(stored, lab.disk, dirs_exist_ok=True)
    return _read(lab, windows)


def _make(lab: Lab, windows: int) -> None:
    logs = lab.folder / "logs" / "undisturbed"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    state = State(lab.disk / "states" / "now")
    state.folder.mkdir(parents=True)
    place = lab.place(state)
    effects: dict[str, list[list[Any]]] = {}
    for window in range(1, windows + 1):
        for stage in STAGES:
            state.copy(lab.disk / "states" / f"{window}-{stage}")
            job = lab.stage(place, logs, stage, window)
            if job.wait() != 0:
                raise RuntimeError(f"the undisturbed {stage} of window {window} fails: {job.printed[-3000:]}")
            effects[f"{window} {stage}"] = [[e["at"], e["kind"], e["label"]] for e in job.written()]
        reported = dumped(lab, place, logs, lab.disk / "states" / f"{window}.json")
        _require_whole(lab, window, reported)
    state.copy(lab.disk / "states" / f"{windows + 1}-{STAGES[0]}")
    (lab.disk / "states" / "effects.json").write_text(json.dumps(effects))


def _require_whole(lab: Lab, window: int, reported: Mapping[str, Any]) -> None:
    """Raises RuntimeError unless the reference has every row of the source, and at the end the log's keys."""
    lost = set(lab.source_rows(window)).symmetric_difference(reported["raw"])
    keys = {json.loads(row)["id"] for row in reported["dbo_customers"]}
    if reported["problems"] or lost or (window == 3 and keys != lab.source_keys()):
        raise RuntimeError(f"the undisturbed run is wrong: {reported['problems']}, {lost}, {keys}")


def _read(lab: Lab, windows: int) -> Base:
    states = lab.disk / "states"
    begins = [*((w, s) for w in range(1, windows + 1) for s in STAGES), (windows + 1, STAGES[0])]
    return Base(
        {(w, s): State(states / f"{w}-{s}") for w, s in begins},
        effects_in(states / "effects.json"),
        {w: json.loads((states / f"{w}.json").read_text()) for w in range(1, windows + 1)},
    )


def effects_in(file: Path) -> Known:
    stored = json.loads(file.read_text())
    return {
        (int(name.split()[0]), name.split()[1]): [Effect(*effect) for effect in effects]
        for name, effects in stored.items()
    }


def dumped(lab: Lab, place: Place, logs: Path, to: Path) -> dict[str, Any]:
    """Returns all rows of the feed's tables."""
    job = lab.jobs.start(place, logs, [dump.__file__, str(to), FEED])
    if job.wait() != 0:
        raise RuntimeError(f"the tables cannot be read: {job.printed[-3000:]}")
    tables: dict[str, Any] = json.loads(to.read_text())
    return tables
