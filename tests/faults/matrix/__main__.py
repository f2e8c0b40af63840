"""Run the matrix: first cells without an outcome, then random ones by seed, until the time is over."""

from __future__ import annotations

import argparse
import time
import traceback
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from rich.console import Console

from changeledger.config.settings import PROJECT
from tests.faults.matrix import cells, soak
from tests.faults.matrix.base import Base, base, code
from tests.faults.matrix.cells import Cell
from tests.faults.matrix.faults import OF_LAKES
from tests.faults.matrix.lab import Lab, moment
from tests.faults.matrix.outcomes import Effects, Outcome, Outcomes, Soak
from tests.faults.matrix.page import page
from tests.faults.matrix.scene import DEFECT, Verdict, play

FOLDER = PROJECT / ".cache" / "faults"
EFFECTS = "effects.json"
PAGE = PROJECT / "docs" / "reliability.md"
_COLORS = {"survived": "green", "stopped": "yellow", "defect": "red", "skipped": "dim"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--minutes", type=float, help="how long it runs; until Ctrl-C when it is not said")
    parser.add_argument("--only", default="", help="cells whose name has this text")
    parser.add_argument("--lake", choices=OF_LAKES, default="disk", help="only cells of this lake")
    parser.add_argument("--soak", type=int, metavar="SEED", help="fifty windows of one feed instead of cells")
    parser.add_argument("--page", action="store_true", help="write docs/reliability.md from what was found")
    arguments = parser.parse_args()
    console = Console(soft_wrap=True)
    if arguments.soak is not None:
        with _lab(console, "disk") as lab:
            known = _undisturbed(console, lab).known
        soak.run(
            FOLDER, known, arguments.soak, lambda text: console.print(text, highlight=False, markup=False)
        )
    elif not arguments.page:
        until = time.monotonic() + (arguments.minutes * 60 if arguments.minutes else float("inf"))
        try:
            _run(console, arguments.lake, until, arguments.only)
        except KeyboardInterrupt:
            console.print("ended; the next run goes on from here")
    _write_page(console)


def folder_of(lake: str) -> Path:
    """Returns the folder of the lab and of the lake's effects."""
    return FOLDER if lake == "disk" else FOLDER / lake


def _run(console: Console, lake: str, until: float, only: str) -> None:
    outcomes, version = Outcomes(FOLDER / "outcomes.jsonl"), code()
    with _lab(console, lake) as lab:
        known = _undisturbed(console, lab)
        for cell in _remaining(outcomes, known, version, lake, only):
            if time.monotonic() > until:
                return
            _record(console, outcomes, lab, known, cell, version)


def _lab(console: Console, lake: str) -> Lab:
    console.print("starting services")
    return Lab(folder_of(lake), own_disk=lake == "disk", lake=lake)


def _undisturbed(console: Console, lab: Lab) -> Base:
    console.print("the undisturbed run: from the last time, or made now")
    known = base(lab)
    Effects(lab.folder / EFFECTS).save(known.known)
    return known


def _remaining(outcomes: Outcomes, known: Base, version: str, lake: str, only: str) -> Iterator[Cell]:
    chosen = cells.chosen(known.known, lake)
    done = {o.cell.seed for o in outcomes.all() if o.cell.lake == lake}
    wanted = chain(chosen, cells.by_seed(known.known, lake=lake)) if not only else chosen
    for cell in outcomes.remaining(wanted, version):
        if only in cell.id and (not cell.seed or cell.seed not in done):
            yield cell


def _record(console: Console, outcomes: Outcomes, lab: Lab, known: Base, cell: Cell, version: str) -> Verdict:
    """Plays the cell, then stores and prints its outcome."""
    begin = time.monotonic()
    try:
        verdict = play(lab, known, cell)
    except Exception:  # noqa: BLE001 - of the matrix itself: kept, and the others go on
        verdict = Verdict(DEFECT, "the matrix fails: " + traceback.format_exc()[-1500:])
    seconds = time.monotonic() - begin
    effects = known.known[cell.window, cell.stage]
    label = effects[cell.at - 1].label if 0 < cell.at <= len(effects) else ""
    outcomes.add(Outcome(cell, label, verdict.outcome, verdict.detail, round(seconds, 1), version, moment()))
    color = _COLORS[verdict.outcome]
    console.print(
        f"[{color}]{verdict.outcome:9}[/] {seconds:5.0f} s  {cell.id}  [dim]{label}[/]", highlight=False
    )
    if verdict.outcome == DEFECT:
        console.print(verdict.detail, markup=False, highlight=False)
    return verdict


def _write_page(console: Console) -> None:
    stored = {lake: folder_of(lake) / EFFECTS for lake in OF_LAKES}
    known = {lake: Effects(file).load() for lake, file in stored.items() if file.exists()}
    if "disk" not in known:
        console.print("nothing was found yet")
        return
    outcomes = Outcomes(FOLDER / "outcomes.jsonl").all()
    chosen = sum(len(cells.chosen(effects, lake)) for lake, effects in known.items())
    PAGE.write_text(page(known["disk"], outcomes, chosen, Soak.load(FOLDER / soak.FILE)))
    console.print(f"written: {PAGE}")


if __name__ == "__main__":
    main()
